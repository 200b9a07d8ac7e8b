// SPDX-License-Identifier: Apache-2.0
// One call between processes, from its start to its wait.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/communicator.h"
#include "comm/messages/call_header.h"
#include "comm/messages/message_world.h"

namespace megalith::comm {

class MessagePending final : public Pending {
 public:
  struct Place {
    std::shared_ptr<MessageWorld> messages;
    std::shared_ptr<RankState> state;
    std::string group_name;
    const std::vector<int>* members;  // world ranks; outlives the call
    int rank;                         // in the group
    int tag;                          // of the headers; data goes by the next
  };
  /// Starts all messages of the call.
  MessagePending(Place place, const Operation& operation, uint64_t number);
  ~MessagePending() override;
  void wait() override;
  void advance() override;

 private:
  struct Message {
    Transport::Handle handle = 0;
    int peer = 0;  // rank in the group
    bool is_receive = false;
    bool is_header = false;
  };
  int size() const { return static_cast<int>(place_.members->size()); }
  void start_transfer();
  void start_collective();
  void start_reduction();
  void send(int peer, bool is_header, const std::byte* data, int64_t bytes);
  void receive(int peer, bool is_header, std::byte* data, int64_t bytes);
  void send_header(int peer);
  void receive_header(int peer);
  /// What goes wrong in `body` is told to all ranks.
  void guarded(FunctionRef<void()> body);
  void look_for_failures();
  bool progress();
  bool is_expected(const Message& message) const;
  bool is_over(const Message& message) const;
  void finish();
  void compare(int peer) const;
  void give_up();
  std::string text() const;
  [[noreturn]] void throw_late() const;

  Place place_;
  Operation operation_;
  std::string label_;
  CallHeader own_;
  std::vector<CallHeader> headers_;              // by rank in the group
  std::vector<bool> has_called_;                 // by rank: its header came, and is as ours
  std::vector<std::vector<std::byte>> reduced_;  // by rank: what comes to be reduced
  std::vector<Message> open_;
  bool over_ = false;
  int exceptions_;
};

}  // namespace megalith::comm

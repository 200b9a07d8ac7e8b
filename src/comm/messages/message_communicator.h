// SPDX-License-Identifier: Apache-2.0
// A rank that is a process. Every call sends its identity to all ranks concerned beside the data,
// straight from and to the buffers, and compares what comes; reductions add what came in rank
// order. Nothing of the transport's own collectives is used: they cannot be given a deadline, a
// label or an order of additions.
//
// Data moves on while any call of this process waits; so unlike between threads a wait may have to
// wait for a peer to reach a wait of its own, whichever it is. Any order of waits is still free of
// deadlock.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/backends.h"
#include "comm/call_number.h"
#include "comm/messages/message_world.h"

namespace megalith::comm {

class MessageCommunicator final : public Communicator {
 public:
  /// `members`: the world ranks of the group in its order; `group` numbers it, above every group
  /// that any two of them share already.
  MessageCommunicator(std::shared_ptr<MessageWorld> messages, int group, std::vector<int> members,
                      int rank, std::string name, std::shared_ptr<RankState> state);
  void heartbeat() override;
  void abort(const std::string& cause) override;

 protected:
  Ticket start(const Operation& operation) override;
  std::unique_ptr<Communicator> make_group(std::span<const int> members, int rank, int color,
                                           std::string name) override;
  std::unique_ptr<ControlMessages> make_second(std::shared_ptr<RankState> state,
                                               std::string name) override;

 private:
  int agree_on_group();
  std::shared_ptr<MessageWorld> messages_;
  int group_;
  std::vector<int> members_;
  CallNumbers numbers_;
};

/// Runs body(world) as this rank of a transport and returns when all ranks have. If it throws, the
/// others are ended with its cause, and this rank with what they were told; with a RankFailure if
/// another failed first. Collective; ranks tell each other their hosts first.
void run_message_rank(Transport& transport, const std::string& host,
                      FunctionRef<void(Communicator&)> body, const RankOptions& options);

}  // namespace megalith::comm

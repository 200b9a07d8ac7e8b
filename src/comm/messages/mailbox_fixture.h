// SPDX-License-Identifier: Apache-2.0
// A transport between threads of one process, for tests: messages are copied when they are sent,
// leave when their sender tests any (a library that moves on only while it is called) and are
// matched in the order in which receives were started.
#pragma once

#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/messages/message_communicator.h"

namespace megalith::comm {

class MailboxHub {
 public:
  explicit MailboxHub(int ranks) : boxes_(static_cast<size_t>(ranks)) {}
  int size() const { return static_cast<int>(boxes_.size()); }

  struct Message {
    int from, tag;
    std::vector<std::byte> bytes;
  };
  struct Receive {
    Transport::Handle handle;
    int from, tag;
    std::byte* data;
    int64_t bytes;
  };
  struct Box {
    std::list<Message> messages;
    std::list<Receive> receives;
    std::map<Transport::Handle, bool> done;  // true: the message was too long
  };

  std::mutex mutex;
  Box& box(int rank) { return boxes_[static_cast<size_t>(rank)]; }
  void match(int rank) {
    Box& b = box(rank);
    for (auto receive = b.receives.begin(); receive != b.receives.end();) {
      auto message = b.messages.begin();
      while (message != b.messages.end() &&
             (message->tag != receive->tag ||
              (receive->from != Transport::kAnyRank && message->from != receive->from)))
        ++message;
      if (message == b.messages.end()) {
        ++receive;
        continue;
      }
      const auto length = static_cast<int64_t>(message->bytes.size());
      const bool fits = length <= receive->bytes;
      if (fits && length > 0)
        std::memcpy(receive->data, message->bytes.data(), message->bytes.size());
      b.done[receive->handle] = !fits;
      b.messages.erase(message);
      receive = b.receives.erase(receive);
    }
  }

 private:
  std::vector<Box> boxes_;
};

class MailboxTransport : public Transport {
 public:
  MailboxTransport(MailboxHub& hub, int rank) : hub_(hub), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return hub_.size(); }
  Handle start_send(int to, int tag, const std::byte* data, int64_t bytes) override {
    const std::lock_guard lock(hub_.mutex);
    leaving_.push_back({++last_, to, {rank_, tag, {data, data + bytes}}});
    return last_;
  }
  Handle start_receive(int from, int tag, std::byte* data, int64_t bytes) override {
    const std::lock_guard lock(hub_.mutex);
    hub_.box(rank_).receives.push_back({++last_, from, tag, data, bytes});
    hub_.match(rank_);
    return last_;
  }
  bool test(Handle handle) override {
    const std::lock_guard lock(hub_.mutex);
    for (Leaving& message : leaving_) {
      hub_.box(message.to).messages.push_back(std::move(message.message));
      hub_.match(message.to);
      hub_.box(rank_).done[message.handle] = false;
    }
    leaving_.clear();
    auto& done = hub_.box(rank_).done;
    const auto found = done.find(handle);
    if (found == done.end()) return false;
    const bool too_long = found->second;
    done.erase(found);
    if (too_long) throw std::runtime_error("message too long");
    return true;
  }
  bool cancel_receive(Handle handle) override {
    const std::lock_guard lock(hub_.mutex);
    hub_.box(rank_).receives.remove_if([&](const auto& r) { return r.handle == handle; });
    return hub_.box(rank_).done.erase(handle) == 0;
  }
  void leave(bool) override {}

 private:
  struct Leaving {
    Handle handle;
    int to;
    MailboxHub::Message message;
  };
  MailboxHub& hub_;
  int rank_;
  Handle last_ = 0;
  std::vector<Leaving> leaving_;
};

/// Runs body on `ranks` threads that talk by messages; what() of each rank's error, "" for none.
template <typename AnyTransport = MailboxTransport>
std::vector<std::string> run_mailbox_ranks(int ranks, FunctionRef<void(Communicator&)> body,
                                           double deadline = 30) {
  MailboxHub hub(ranks);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      AnyTransport transport(hub, rank);
      try {
        run_message_rank(transport, "host" + std::to_string(rank), body, {deadline});
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace megalith::comm

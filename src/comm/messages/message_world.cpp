// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/message_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "comm/communicator.h"

namespace megalith::comm {
namespace {

constexpr int kNewsTag = 0;
/// How long a failing rank waits for its news to be taken.
constexpr double kNewsSeconds = 1;

}  // namespace

MessageWorld::MessageWorld(Wire& wire) : wire_(wire) { await_news(); }

MessageWorld::~MessageWorld() {
  // A receive that is left open would be written to.
  if (waiting_ != 0) wire_.cancel_receive(waiting_);
}

std::string MessageWorld::name_of(int rank) const {
  const auto r = static_cast<size_t>(rank);
  if (r >= hosts_.size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} on {}", rank, hosts_[r]);
}

void MessageWorld::await_news() {
  waiting_ = wire_.start_receive(Wire::kAnyRank, kNewsTag, reinterpret_cast<std::byte*>(&incoming_),
                                 sizeof(News));
}

void MessageWorld::note(int rank, ExitCode code, const std::string& cause) {
  failed_rank_ = rank;
  code_ = code;
  cause_ = cause;
  failed_.store(true, std::memory_order_release);
}

void MessageWorld::look() {
  const std::lock_guard lock(mutex_);
  if (waiting_ == 0 || !wire_.test(waiting_)) return;
  waiting_ = 0;
  incoming_.cause.back() = '\0';
  if (!failed())
    note(incoming_.rank, static_cast<ExitCode>(incoming_.code), incoming_.cause.data());
  await_news();
}

void MessageWorld::fail(ExitCode code, const std::string& cause) {
  look();
  std::vector<Wire::Handle> open;
  {
    const std::lock_guard lock(mutex_);
    if (failed()) return;
    note(wire_.rank(), code, cause);
    outgoing_.rank = wire_.rank();
    outgoing_.code = static_cast<int32_t>(code);
    const size_t length = std::min(cause.size(), outgoing_.cause.size() - 1);
    std::copy_n(cause.begin(), length, outgoing_.cause.begin());
    for (int rank = 0; rank < wire_.size(); ++rank) {
      if (rank == wire_.rank()) continue;
      open.push_back(
          wire_.start_send(rank, kNewsTag, reinterpret_cast<std::byte*>(&outgoing_), sizeof(News)));
    }
  }
  const double until = monotonic_seconds() + kNewsSeconds;
  while (!open.empty() && monotonic_seconds() < until) {
    std::erase_if(open, [&](Wire::Handle handle) { return wire_.test(handle); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void MessageWorld::throw_failure(const std::string& where) const {
  const std::lock_guard lock(mutex_);
  throw RankFailure(code_, fmt::format("{}: stopped because {} failed: {}", where,
                                       name_of(failed_rank_), cause_));
}

}  // namespace megalith::comm

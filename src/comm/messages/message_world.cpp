// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/message_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/messages/drain_sends.h"

namespace megalith::comm {

MessageWorld::MessageWorld(Transport& transport)
    : transport_(transport), heartbeats_sent_(static_cast<size_t>(transport.size())) {
  await_failure_notice();
  await_heartbeat();
}

MessageWorld::~MessageWorld() {
  // What is left open would be read or written later, and the transport is about to be left.
  std::erase(heartbeats_sent_, Transport::Handle{0});
  drain_sends(transport_, std::move(heartbeats_sent_));
  for (const Transport::Handle waiting : {waiting_, waiting_for_heartbeat_}) {
    try {
      if (waiting != 0) transport_.cancel_receive(waiting);
    } catch (const std::exception&) {
      // Nobody is left to be told.
    }
  }
}

std::string MessageWorld::name_of(int rank) const {
  const auto r = static_cast<size_t>(rank);
  if (r >= hosts_.size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} on {}", rank, hosts_[r]);
}

void MessageWorld::await_failure_notice() {
  waiting_ =
      transport_.start_receive(Transport::kAnyRank, kFailureTag,
                               reinterpret_cast<std::byte*>(&incoming_), sizeof(FailureNotice));
}

void MessageWorld::note(Failure failure) {
  failure_ = std::move(failure);
  failed_.store(true, std::memory_order_release);
}

void MessageWorld::await_heartbeat() {
  waiting_for_heartbeat_ = transport_.start_receive(Transport::kAnyRank, kHeartbeatTag,
                                                    &heartbeat_in_, sizeof(heartbeat_in_));
}

void MessageWorld::heartbeat(double seconds) {
  const std::lock_guard lock(mutex_);
  const double now = monotonic_seconds();
  if (now - last_heartbeat_ < seconds) return;
  last_heartbeat_ = now;
  for (int rank = 0; rank < transport_.size(); ++rank) {
    if (rank == transport_.rank()) continue;
    Transport::Handle& sent = heartbeats_sent_[static_cast<size_t>(rank)];
    try {
      if (sent == 0 || transport_.test(sent))
        sent = transport_.start_send(rank, kHeartbeatTag, &heartbeat_out_, sizeof(heartbeat_out_));
    } catch (const std::exception&) {
      sent = 0;  // a peer that is gone: the next call says so, and what it was
    }
  }
}

uint64_t MessageWorld::heartbeats() {
  const std::lock_guard lock(mutex_);
  while (transport_.test(waiting_for_heartbeat_)) {
    ++num_heartbeats_;
    await_heartbeat();
  }
  return num_heartbeats_;
}

void MessageWorld::look() {
  const std::lock_guard lock(mutex_);
  if (waiting_ == 0 || !transport_.test(waiting_)) return;
  waiting_ = 0;
  incoming_.cause.back() = '\0';
  if (!failed()) note({static_cast<ExitCode>(incoming_.code), incoming_.cause.data()});
  await_failure_notice();
}

bool MessageWorld::fail(const Failure& failure) {
  look();
  std::vector<Transport::Handle> open;
  {
    const std::lock_guard lock(mutex_);
    if (failed()) return false;
    note(failure);
    is_own_failure_ = true;
    outgoing_.code = static_cast<int32_t>(failure.code);
    const size_t length = std::min(failure.text.size(), outgoing_.cause.size() - 1);
    std::copy_n(failure.text.begin(), length, outgoing_.cause.begin());
    for (int rank = 0; rank < transport_.size(); ++rank) {
      if (rank == transport_.rank()) continue;
      open.push_back(transport_.start_send(
          rank, kFailureTag, reinterpret_cast<std::byte*>(&outgoing_), sizeof(FailureNotice)));
    }
  }
  drain_sends(transport_, std::move(open));
  return true;
}

void MessageWorld::throw_failure(const std::string& where) const {
  const std::lock_guard lock(mutex_);
  throw RankFailure(failure_.code, fmt::format("{}: stopped because {}", where, failure_.text));
}

void MessageWorld::throw_own_failure() const {
  const std::lock_guard lock(mutex_);
  if (is_own_failure_) failure_.raise();
}

}  // namespace megalith::comm

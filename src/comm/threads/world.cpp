// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/world.h"

#include "base/thread_pool.h"
#include "comm/communicator.h"

namespace megalith::comm {
namespace {

// About 50 us of `pause` on current server cores: a collective of a layer comes sooner than a
// futex.
constexpr int kSpins = 2000;

}  // namespace

World::World(int num_ranks)
    : ranks_(static_cast<size_t>(num_ranks)), spins_(num_ranks <= available_cores() ? kSpins : 0) {}

void World::ring_all() {
  for (Rank& rank : ranks_) {
    for (Lane& lane : rank.lanes) lane.bell.ring();
  }
}

void World::fail(int rank, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = error;
    failed_rank_ = rank;
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      cause_ = e.what();
      code_ = e.code();
    } catch (const std::exception& e) {
      cause_ = e.what();
    } catch (...) {
      cause_ = "an exception of unknown type";
    }
    failed_.store(true, std::memory_order_release);
  }
  ring_all();
}

void World::throw_failure(const std::string& where) const {
  const std::lock_guard lock(mutex_);
  throw RankFailure(
      code_, fmt::format("{}: stopped because rank {} failed: {}", where, failed_rank_, cause_));
}

void World::leave(int rank) {
  ranks_[static_cast<size_t>(rank)].left.store(true, std::memory_order_release);
  any_left_.store(true, std::memory_order_release);
  ring_all();
}

void World::note_call(int rank, int lane, const Operation& operation, const std::string& group) {
  Lane& noted = at(rank, lane);
  const std::lock_guard lock(noted.mutex);
  noted.has_called = true;
  noted.kind = operation.kind;
  noted.label = operation.label;
  noted.group = group;
}

std::string World::last_call(int rank, int lane) const {
  const Lane& noted = at(rank, lane);
  const std::lock_guard lock(noted.mutex);
  if (!noted.has_called) return "it has called nothing yet";
  return fmt::format("its last call was {} '{}' in group '{}'", noted.kind, noted.label,
                     noted.group);
}

}  // namespace megalith::comm

// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/world.h"

#include "base/thread_pool.h"

namespace megalith::comm {
namespace {

// About 50 us of `pause` on current server cores: a collective of a layer comes sooner than a
// futex.
constexpr int kSpins = 2000;

}  // namespace

World::World(int num_ranks)
    : ranks_(static_cast<size_t>(num_ranks)), spins_(num_ranks <= available_cores() ? kSpins : 0) {}

void World::notify_all() {
  for (Rank& rank : ranks_) {
    for (ThreadEvents& thread : rank.threads) thread.event.notify();
  }
  end_event_.notify();
}

void World::fail(Failure failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::move(failure);
    failed_.store(true, std::memory_order_release);
  }
  notify_all();
}

void World::throw_failure(const std::string& where) const {
  const std::lock_guard lock(mutex_);
  throw RankFailure(failure_->code, fmt::format("{}: stopped because {}", where, failure_->text));
}

void World::leave(int rank) {
  ranks_[static_cast<size_t>(rank)].left.store(true, std::memory_order_release);
  any_left_.store(true, std::memory_order_release);
  notify_all();
}

std::vector<int> World::still_here(int started) const {
  std::vector<int> here;
  for (int rank = 0; rank < started; ++rank) {
    if (!has_left(rank)) here.push_back(rank);
  }
  return here;
}

void World::note_call(int rank, int thread, const Operation& operation, const std::string& group) {
  ThreadEvents& noted = at(rank, thread);
  const std::lock_guard lock(noted.mutex);
  noted.call.note(operation, group);
}

std::string World::last_call(int rank, int thread) const {
  const ThreadEvents& noted = at(rank, thread);
  const std::lock_guard lock(noted.mutex);
  return noted.call.is_any ? "its last call was " + noted.call.text() : "it has called nothing yet";
}

}  // namespace megalith::comm

// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/host.h"
#include "comm/backends.h"
#include "comm/threads/thread_communicator.h"
#include "comm/timeout.h"

namespace megalith::comm {
namespace {

void run_rank(World& world, const std::shared_ptr<Group>& group, int rank,
              const FunctionRef<void(Communicator&)>& body, const RankOptions& options,
              const std::string& host) {
  const auto state = std::make_shared<RankState>();
  state->world_rank = rank;
  state->world_size = world.num_ranks();
  state->host = host;
  state->deadline_seconds = options.deadline_seconds;
  try {
    ThreadCommunicator comm(group, rank, state);
    body(comm);
  } catch (...) {
    world.fail(state->told(std::current_exception()));
  }
  world.leave(rank);
}

/// Returns when all have left, or one has failed and nothing has been heard of the others for
/// `seconds`: these. Those that live are heard of when they leave or send a heartbeat.
std::vector<int> await_ranks(World& world, int started, double seconds) {
  Timeout timeout(seconds, monotonic_seconds());
  uint64_t heartbeats = 0;
  size_t last = 0;
  bool counts = false;  // from the failure on
  while (true) {
    const uint32_t seen = world.end_event().count();
    std::vector<int> here = world.still_here(started);
    if (here.empty()) return here;
    const double now = monotonic_seconds();
    const uint64_t given = world.heartbeats();
    if (!counts || given != heartbeats || here.size() != last) timeout.restart(now);
    counts = world.failed();
    heartbeats = given;
    last = here.size();
    if (timeout.expired(now)) return here;
    world.end_event().wait(seen, counts ? timeout.next_check() : HUGE_VAL, 0);
  }
}

/// What these ranks use is on the stacks of this thread and its callers, so none can be left.
[[noreturn]] void end_process(const World& world, const std::vector<int>& hung,
                              const RankOptions& options) {
  Failure failure = *world.first_failure();
  for (const int rank : hung) {
    failure.text += fmt::format("; rank {} has not ended {} s later, {}", rank,
                                options.unwind_seconds, world.last_call(rank, 0));
  }
  failure.text += "; the process ends all the same";
  options.tell(failure);
  std::_Exit(static_cast<int>(failure.code));
}

}  // namespace

void tell_on_stderr(const Failure& failure) { std::fputs((failure.text + "\n").c_str(), stderr); }

void run_ranks(int num_ranks, FunctionRef<void(Communicator&)> body, const RankOptions& options) {
  MEGA_CHECK(num_ranks >= 1, "{} ranks", num_ranks);
  World world(num_ranks);
  std::vector<int> all(static_cast<size_t>(num_ranks));
  std::iota(all.begin(), all.end(), 0);
  const auto group = std::make_shared<Group>(world, "world", all);
  const std::string host = host_name();
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < num_ranks; ++rank) {
      threads.emplace_back([&, rank] { run_rank(world, group, rank, body, options, host); });
    }
  } catch (const std::system_error& error) {
    world.fail({ExitCode::failure, fmt::format("cannot start the thread of rank {} of {}: {}",
                                               threads.size(), num_ranks, error.what())});
  }
  const std::vector<int> hung =
      await_ranks(world, static_cast<int>(threads.size()), options.unwind_seconds);
  if (!hung.empty()) end_process(world, hung, options);
  for (std::thread& thread : threads) thread.join();
  if (world.first_failure()) world.first_failure()->raise();
}

}  // namespace megalith::comm

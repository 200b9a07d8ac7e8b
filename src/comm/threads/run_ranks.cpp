// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/host.h"
#include "comm/backends.h"
#include "comm/threads/thread_communicator.h"

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

}  // namespace

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
  for (std::thread& thread : threads) thread.join();
  if (world.first_failure()) world.first_failure()->raise();
}

}  // namespace megalith::comm

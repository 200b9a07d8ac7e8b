// SPDX-License-Identifier: Apache-2.0
#include "trials/timed_steps.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/host.h"
#include "engine/engine.h"
#include "kernels/matmul/ceiling.h"
#include "trials/made_up_batches.h"
#include "trials/other_load.h"

namespace megalith::trials {
namespace {

/// Rank 0's number, on every rank. Collective.
double of_rank_zero(comm::Communicator& world, double mine) {
  return world.exchange_values(std::span<const double>(&mine, 1), "timed steps").front();
}

double mean(comm::Communicator& world, double mine) {
  const auto all = world.exchange_values(std::span<const double>(&mine, 1), "timed steps");
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

/// By rank, the process that it runs in: ranks may be threads of one.
std::vector<std::string> processes_of(comm::Communicator& world) {
  return world.exchange(fmt::format("{}:{}", host_name(), ::getpid()), "timed steps");
}

/// What programs other than this run took on rank 0's host, on every rank. Collective.
double others_load(comm::Communicator& world, const std::vector<std::string>& processes,
                   const OtherLoad& load) {
  double others = load.share();
  const double own = load.own_share();
  const auto all = world.exchange_values(std::span<const double>(&own, 1), "timed steps");
  const std::string& here = processes[static_cast<size_t>(world.rank())];
  const std::string host = here.substr(0, here.rfind(':') + 1);
  std::set<std::string> seen{here};
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    if (processes[rank].starts_with(host) && seen.insert(processes[rank]).second)
      others -= all[rank];
  }
  return of_rank_zero(world, std::max(0.0, others));
}

constexpr double kCeilingSeconds = 0.06;

DType product_dtype(const engine::Settings& s) {
  return s.weights == DType::bf16 && s.activations == DType::bf16 ? DType::bf16 : DType::f32;
}

/// Of the rank with the largest total. Collective.
account::MemoryByClass largest(comm::Communicator& world, const account::MemoryByClass& mine) {
  std::vector<double> numbers{static_cast<double>(mine.total)};
  for (const int64_t bytes : mine.bytes) numbers.push_back(static_cast<double>(bytes));
  const std::vector<double> all =
      world.exchange_values(std::span<const double>(numbers), "timed steps");
  size_t most = 0;
  for (size_t at = 0; at < all.size(); at += numbers.size()) {
    if (all[at] > all[most]) most = at;
  }
  account::MemoryByClass memory;
  memory.total = static_cast<int64_t>(all[most]);
  for (size_t i = 0; i < memory.bytes.size(); ++i)
    memory.bytes[i] = static_cast<int64_t>(all[most + 1 + i]);
  return memory;
}

}  // namespace

TimedSteps timed_steps(comm::Communicator& world, device::Device& device,
                       const engine::Settings& settings, const TimedStepsOptions& options) {
  const parallel::Mesh mesh(world, settings.layout);
  engine::Engine engine(settings, device, mesh);
  engine.initialise();
  const std::vector<data::HostBatch> batches = made_up_batches(settings);
  const auto weight = static_cast<double>(settings.batch.full * settings.loss_length());
  int64_t step = 0;
  const auto seconds_of = [&](int64_t steps) {
    world.barrier("begin");
    const double begin = monotonic_seconds();
    for (int64_t i = 0; i < steps; ++i) engine.step(++step, 1e-4, batches, weight);
    world.barrier("end");
    return (monotonic_seconds() - begin) / static_cast<double>(steps);
  };
  double last = 0;
  for (int i = 0; i < options.warm_up; ++i) last = seconds_of(1);
  const double wanted = last > 0 ? std::ceil(options.least_seconds / last) : 1;
  const auto steps = static_cast<int64_t>(of_rank_zero(world, std::clamp(wanted, 1.0, 1e6)));
  // The engine's device has the marks of its memory.
  const auto scratch = device::make_device(device.target());
  kernels::Exec exec(*scratch, settings.numerics);
  const std::vector<std::string> processes = processes_of(world);
  TimedSteps timed;
  for (int sample = 0; sample < options.samples; ++sample) {
    world.barrier("ceiling");
    timed.ceiling.push_back(
        mean(world, kernels::gemm_ceiling(exec, product_dtype(settings), kCeilingSeconds)));
    const OtherLoad load;
    const double seconds = seconds_of(steps);
    timed.seconds.push_back(of_rank_zero(world, seconds));
    timed.other_load.push_back(others_load(world, processes, load));
  }
  timed.memory = largest(world, account::memory_of(device));
  return timed;
}

}  // namespace megalith::trials

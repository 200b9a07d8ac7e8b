// SPDX-License-Identifier: Apache-2.0
#include "testing/toy_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "comm/backends.h"
#include "testing/toy_blocks.h"

namespace megalith::testing {

void run_toy(const engine::Settings& settings, int steps, const Machine& machine, ToyRun& run) {
  engine::check(settings, "toy settings");
  std::vector<std::vector<engine::StepResult>> results(
      static_cast<size_t>(settings.layout.num_ranks()));
  comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = machine.make_device(device::Target{
        .isa = machine.isa, .num_threads = machine.threads, .ranks_here = world.size()});
    world.set_device(device.get());
    const parallel::Mesh mesh(world, settings.layout);
    engine::Engine engine(settings, *device, mesh);
    engine.initialise();
    fill_blocks(engine.parameters(), *device);
    auto& mine = results[static_cast<size_t>(world.rank())];
    int64_t skipped = 0;
    for (int64_t step = 1; step <= steps; ++step) {
      const auto micro_batches = toy_micro_batches(settings, step, mesh.at().data);
      const double lr = optim::learning_rate(settings.schedule, {.step = step});
      mine.push_back(engine.step(step, lr, micro_batches, toy_weight(settings, step), skipped));
      if (!mine.back().applied) ++skipped;
    }
    run.state.add(engine);
    world.set_device(nullptr);
  });
  for (size_t step = 0; step < results[0].size(); ++step) {
    run.loss.push_back(results[0][step].loss);
    run.grad_norm.push_back(results[0][step].grad_norm);
    run.applied.push_back(results[0][step].applied);
    std::ranges::copy(results[0][step].told, std::back_inserter(run.told));
    if (results[0][step].loss_scale) run.loss_scale.push_back(*results[0][step].loss_scale);
    for (const auto& rank : results) {
      const engine::StepResult &told = rank[step], &first = results[0][step];
      const auto same = [](double x, double y) {
        return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
      };
      MEGA_CHECK(same(told.loss, first.loss) && same(told.grad_norm, first.grad_norm) &&
                     told.applied == first.applied && told.loss_scale == first.loss_scale &&
                     told.overflowed == first.overflowed &&
                     std::ranges::equal(told.told, first.told, same),
                 "ranks were told different results of step {}", step + 1);
    }
  }
}

std::string difference(const ToyRun& a, const ToyRun& b) {
  if (a.loss.size() != b.loss.size())
    return fmt::format("{} and {} steps", a.loss.size(), b.loss.size());
  for (size_t i = 0; i < a.loss.size(); ++i) {
    const auto differ = [](double x, double y) {
      return std::bit_cast<uint64_t>(x) != std::bit_cast<uint64_t>(y);
    };
    if (differ(a.loss[i], b.loss[i]))
      return fmt::format("loss of step {}: {:a} and {:a}", i + 1, a.loss[i], b.loss[i]);
    if (differ(a.grad_norm[i], b.grad_norm[i])) {
      return fmt::format("gradient norm of step {}: {:a} and {:a}", i + 1, a.grad_norm[i],
                         b.grad_norm[i]);
    }
  }
  if (a.loss_scale != b.loss_scale) return "other loss scales";
  if (a.applied != b.applied) return "other steps were applied";
  if (a.told != b.told) return "other numbers told beside the losses";
  return difference(a.state, b.state);
}

std::string SerialRun::difference(const engine::Settings& other, const Machine& machine) const {
  ToyRun actual;
  run_toy(other, steps_, machine, actual);
  const std::vector<std::string> faults = actual.state.faults();
  return faults.empty() ? testing::difference(expected_, actual) : faults.front();
}

}  // namespace megalith::testing

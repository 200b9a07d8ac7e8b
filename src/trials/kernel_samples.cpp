// SPDX-License-Identifier: Apache-2.0
#include "trials/kernel_samples.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/clock.h"
#include "comm/backends.h"
#include "costs/kernel_time.h"
#include "device/placement.h"
#include "engine/engine.h"
#include "trials/made_up_batches.h"
#include "trials/placed_ranks.h"

namespace megalith::trials {
namespace {

/// The fastest step's records of each kernel and place, and the least time between kernels.
class Fastest {
 public:
  void add(const device::Recorder& recorder, double step_seconds) {
    double inside = 0;
    double calls = 0;
    for (const device::Record& record : recorder.records()) {
      inside += record.seconds;
      calls += static_cast<double>(record.calls);
      const auto [place, is_new] = records_.try_emplace({record.name, record.scope}, record);
      if (!is_new) place->second.seconds = std::min(place->second.seconds, record.seconds);
    }
    gap_ = std::min(gap_, (step_seconds - inside) / calls);
  }
  double gap() const { return gap_; }
  void give(clusters::ProductType type, std::vector<KernelSample>& samples) const {
    for (const auto& [place, record] : records_) {
      if (costs::is_transfer(record) || costs::is_waiting(record) || record.seconds <= 0) continue;
      samples.push_back({record.name, type, static_cast<double>(record.calls), record.work.flops,
                         static_cast<double>(record.work.bytes_read + record.work.bytes_written),
                         record.seconds});
    }
  }

 private:
  std::map<std::pair<std::string, std::string>, device::Record> records_;
  double gap_ = std::numeric_limits<double>::infinity();
};

/// Steps of a model on the ranks of `mesh_world`, which start each step together with all of
/// `world`.
Fastest steps_of(const CalibrationModel& model, device::Device& device, comm::Communicator& world,
                 comm::Communicator& mesh_world, int steps) {
  const parallel::Mesh mesh(mesh_world, model.settings.layout);
  engine::Engine engine(model.settings, device, mesh);
  engine.initialise();
  const auto batches = made_up_batches(model.settings);
  const auto weight = static_cast<double>(model.settings.batch.full * model.settings.loss_length());
  Fastest fastest;
  for (int step = 0; step <= steps; ++step) {
    device::Recorder recorder;
    world.barrier("step");
    if (step > 0) {
      device.set_recorder(&recorder);
      mesh_world.set_device(&device);
    }
    const double begin = monotonic_seconds();
    engine.step(step + 1, 1e-4, batches, weight);
    const double seconds = monotonic_seconds() - begin;
    mesh_world.set_device(nullptr);
    device.set_recorder(nullptr);
    if (step > 0) fastest.add(recorder, seconds);
  }
  return fastest;
}

}  // namespace

KernelSamples sample_kernels(const SamplingOptions& options) {
  const auto models = calibration_models();
  const auto layouts = options.ranks > 1 ? calibration_layouts() : std::vector<CalibrationModel>();
  KernelSamples all;
  std::vector<double> gaps;
  on_placed_ranks(
      options.ranks, options.threads, [&](comm::Communicator& world, device::Device& device) {
        const bool is_zero = world.rank() == 0;
        const auto take = [&](const CalibrationModel& model, bool alone, const Fastest& fastest) {
          if (!is_zero) return;
          fastest.give(model.type, all.kernels);
          if (alone) gaps.push_back(fastest.gap());
          if (options.progress) options.progress(model.name);
        };
        for (const CalibrationModel& model : models) {
          const auto self = comm::make_self_communicator(device);
          take(model, true, steps_of(model, device, world, *self, options.steps));
        }
        for (const CalibrationModel& model : layouts) {
          // Pairs of ranks; one that is left over only keeps the others company at the barriers.
          std::vector<comm::Membership> members;
          for (int r = 0; r < world.size(); ++r) members.push_back({r / 2, r});
          const auto pair = world.split(members, "pair");
          if (pair->size() == 2) {
            take(model, false, steps_of(model, device, world, *pair, options.steps));
          } else {
            for (int step = 0; step <= options.steps; ++step) world.barrier("step");
          }
        }
      });
  std::ranges::sort(gaps);
  all.gap_seconds = std::max(0.0, gaps[gaps.size() / 2]);
  return all;
}

}  // namespace megalith::trials

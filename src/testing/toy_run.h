// SPDX-License-Identifier: Apache-2.0
// Trains the toy model from its seed for a few steps, under any layout with ranks as threads, and
// keeps all that must not depend on the layout.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "testing/logical_state.h"
#include "testing/toy_model.h"

namespace megalith::testing {

/// What one rank runs on.
struct Machine {
  int threads = 1;
  device::Isa isa = device::detect_isa();
  std::unique_ptr<device::Device> (*make_device)(const device::Target&) = device::make_cpu_device;
};

struct ToyRun {
  std::vector<double> loss, grad_norm;  // by step
  std::vector<double> loss_scale;       // likewise, where there is one
  std::vector<bool> applied;            // likewise
  std::vector<double> told;             // of all steps, where a head tells something
  LogicalState state;                   // after the last step
};

/// Batch sizes and learning rates are those of the settings (constant unless they say otherwise).
/// Fills `run` (which must be new).
void run_toy(const engine::Settings& settings, int steps, const Machine& machine, ToyRun& run);

/// The first thing in which the runs differ by a bit, in words; empty when nothing does.
std::string difference(const ToyRun& a, const ToyRun& b);

/// What every layout of some settings must give: the bits of one rank.
class SerialRun {
 public:
  SerialRun(const engine::Settings& settings, int steps) : steps_(steps) {
    run_toy(settings, steps, {}, expected_);
  }
  /// As of two runs; of as many steps under other settings, what ranks disagree on too.
  std::string difference(const engine::Settings& other, const Machine& machine = {}) const;

 private:
  int steps_;
  ToyRun expected_;
};

}  // namespace megalith::testing

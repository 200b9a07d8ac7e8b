// SPDX-License-Identifier: Apache-2.0
// AdamW over a parameter set: moments, parameter groups, one update. kernels/optimizer/adamw.h has
// the arithmetic of one element.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/exec.h"
#include "parameters/parameter_set.h"

namespace megalith::optim {

/// Parameters whose name matches get this rate and decay; the first group that matches counts.
struct ParameterGroup {
  std::string match;  // glob over names: * any run of characters, ? one
  double lr_scale = 1;
  std::optional<double> weight_decay;
};

/// Of layer-wise decay: parameters whose name begins so have this factor on their rate too.
struct DepthScale {
  std::string prefix;
  double lr_scale = 1;
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay =
      0.1;  // of matrices; vectors (norms, biases) 0 unless a group says otherwise
  std::vector<ParameterGroup> groups;
  std::vector<DepthScale> depths = {};  // the first that a name begins with counts
};

/// True if the whole of `name` matches the glob.
bool matches(std::string_view glob, std::string_view name);

/// The first group whose pattern a name matches; null when none does.
const ParameterGroup* group_of(std::span<const ParameterGroup> groups, std::string_view name);
/// Factor on the learning rate of the parameter so called: its group's times its depth's.
double lr_scale_of(const AdamWOptions& options, std::string_view name);
/// Freezes the parameters whose name matches one of the patterns.
parameters::DeclarationRule freezing_rule(std::vector<std::string> frozen);

/// A tensor that the optimizer keeps beside each trained parameter. Checkpoints name it by the
/// prefix and the parameter's name; messages call it by its title.
struct OptimizerState {
  std::string_view prefix, title;
};
/// What AdamW keeps, in the order of AdamW::states().
inline constexpr std::array<OptimizerState, 2> kAdamWStates = {
    {{"adamw.m.", "first moment"}, {"adamw.v.", "second moment"}}};

class AdamW {
 public:
  /// Takes memory (class optimizer) for the moments of the owned elements of every parameter in
  /// `set`, which must outlive this. Moments start at zero.
  AdamW(parameters::ParameterSet& set, device::Device& device, const AdamWOptions& options);

  /// Updates masters and compute copies of the owned elements from the reduced gradients;
  /// share_weights (sharding.h) brings the others. `step` counts from 1. `gradient_scale` (f32 [1],
  /// on the device) multiplies every gradient first; where `apply` (i32 [1], on the device) is 0,
  /// nothing changes. Local; queued.
  void update(kernels::Exec& exec, int64_t step, double lr, ConstView gradient_scale,
              ConstView apply = {});

  /// i32 [parameters of the set], on the device: 1 where everything that the last update wrote
  /// (masters, compute copies, moments of the owned elements) is finite; 1 before the first update.
  ConstView finite_P() const { return finite_P_; }

  /// All that is kept of parameter `index`, in the order of kAdamWStates: [local shape] each, or
  /// [owned().count] where only a run is owned; absent of a frozen one.
  std::array<View, kAdamWStates.size()> states(size_t index) const {
    return {slots_[index].m, slots_[index].v};
  }

 private:
  struct Slot {
    View m, v;
    double lr_scale, weight_decay;
  };
  parameters::ParameterSet* set_;
  AdamWOptions options_;
  device::Tensor moments_m_, moments_v_, finite_P_;
  std::vector<Slot> slots_;
};

}  // namespace megalith::optim

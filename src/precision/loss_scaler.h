// SPDX-License-Identifier: Apache-2.0
// The factor that losses of f16 training are multiplied by before they are differentiated, so that
// small gradients of activations do not vanish (Micikevicius et al. 2018, section 3.2). It follows
// the gradients: torch.amp.GradScaler's rules, with Megatron-LM's hysteresis and least scale.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "device/device.h"
#include "kernels/exec.h"

namespace megalith::precision {

/// Scales are powers of two: gradients are multiplied and divided without rounding.
struct LossScaleOptions {
  bool dynamic = true;  // false: `initial` for the whole run
  float initial = 65536;
  float growth = 2;
  float backoff = 0.5f;
  int32_t growth_interval = 2000;  // steps in a row without an overflow, then it grows
  int32_t hysteresis = 1;          // overflows, from the last growth on, until it shrinks
  float least = 1;                 // it never gets smaller
};

class LossScaler {
 public:
  /// Takes memory (class optimizer) for the scale and two counts.
  LossScaler(device::Device& device, const LossScaleOptions& options);

  const LossScaleOptions& options() const { return options_; }
  /// f32 [1], on the device: what the next step's losses are multiplied by.
  ConstView scale() const { return scale_; }
  /// The same on the host, as of the last read() or restore().
  float host_scale() const { return host_.scale; }
  /// Whether an overflow would, now or after more of them, be answered by a smaller scale.
  bool can_shrink() const { return options_.dynamic && host_.scale > options_.least; }

  /// After a step whose gradients were all finite or not (i32 [1], on the device: 1 or 0), under
  /// the scale as it was. Queued; read() afterwards. Local, and the same wherever `finite` is.
  void update(kernels::Exec& exec, ConstView finite);
  /// Takes the state to the host. Waits; not under the trace kind.
  void read();

  nlohmann::json to_json() const;
  /// On the host and on the device; a fixed scale stays. A scale below the least and overflows
  /// beyond the hysteresis of these options become those. IntegrityError when it is not what
  /// to_json gives.
  void restore(const nlohmann::json& json);

 private:
  struct State {
    float scale = 1;
    int32_t steps[2] = {0, 1};  // good ones in a row; overflows until it shrinks
  };
  void write();
  LossScaleOptions options_;
  device::Device& device_;
  device::Tensor scale_, steps_;
  State host_;
};

}  // namespace megalith::precision

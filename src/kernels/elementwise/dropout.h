// SPDX-License-Identifier: Apache-2.0
// Dropout (Srivastava et al. 2014), alone and fused with the residual sum. What is dropped is a
// function of meaning, never of order (math/random.h): element (t, c) of the logical [T, H] tensor
// is kept if and only if word c % 4 of
//   philox(key, position_T[t] << 32 | c / 4, sample_T[t])
// is at least dropout_threshold(p), where c counts from the logical row's start (channel_begin +
// the column here). So a shard, a rank, a recomputed pass or another micro-batch size draws the
// same. Local; outputs are overwritten and ready as of a later ticket of the device.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

struct Dropout {
  float p = 0;       // probability of dropping, [0, 1); 0: nothing is drawn, no rows are needed
  uint64_t key = 0;  // of (seed, step, layer, site)
  ConstView sample_T = {};    // i64: the row's sample, numbered over the whole training
  ConstView position_T = {};  // i32: the row's position within its sample
  int64_t channel_begin = 0;  // logical column of column 0; below 2^34 with the columns
};

/// Keep when the drawn word is >= this: floor(p 2^32).
constexpr uint32_t dropout_threshold(float p) {
  return static_cast<uint32_t>(static_cast<double>(p) * 4294967296.0);
}
/// Kept elements are multiplied by this: 1 / (1 - p), each operation rounded once to f32.
constexpr float dropout_scale(float p) { return 1.0f / (1.0f - p); }

/// y = drop(x): x * dropout_scale(p) where kept, else +0 (even for a NaN or infinity); with p = 0,
/// y = x. f32, bf16 or f16, any mix (f64: all). y may alias x.
struct DropoutForward {
  ConstView x_TH;
  View y_TH;
  Dropout dropout = {};
};
void dropout_forward(Exec& exec, const DropoutForward& arguments);

/// dx = drop(dy): the same function, of dy. dx may alias dy.
struct DropoutBackward {
  ConstView dy_TH;
  View dx_TH;
  Dropout dropout = {};
};
void dropout_backward(Exec& exec, const DropoutBackward& arguments);

/// y = residual + drop(x), in f32, rounded once. y may alias x or residual. In backward, dx comes
/// from residual_dropout_backward, and the gradient of `residual` is dy itself, without a copy.
struct ResidualDropoutForward {
  ConstView x_TH;
  ConstView residual_TH;
  View y_TH;
  Dropout dropout = {};
};
void residual_dropout_forward(Exec& exec, const ResidualDropoutForward& arguments);

struct ResidualDropoutBackward {
  ConstView dy_TH;
  View dx_TH;
  Dropout dropout = {};
};
void residual_dropout_backward(Exec& exec, const ResidualDropoutBackward& arguments);

}  // namespace megalith::kernels

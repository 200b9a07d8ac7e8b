// SPDX-License-Identifier: Apache-2.0
// The implementations behind adamw.cpp's list, and the scalar factors that both use.
#pragma once

#include "kernels/optimizer/adamw.h"

namespace megalith::kernels {

/// Linear interpolation from the nearer end, as in torch.lerp: a share of 1 gives x exactly.
///   old + share (x - old) = fma(factor, x - old, from_old ? old : x)
struct Lerp {
  double factor;  // share if from_old, else share - 1
  bool from_old;
};

/// What one step multiplies by, in double; f32 code rounds each once.
struct AdamWFactors {
  double decay;  // 1 - lr weight_decay
  Lerp first, second;
  double step_size;        // lr / (1 - beta1^step)
  double root_correction;  // sqrt(1 - beta2^step)
  double eps;
};
AdamWFactors adamw_factors(const AdamW& arguments);

void adamw_simd(Exec& exec, const AdamW& arguments);
void adamw_reference(Exec& exec, const AdamW& arguments);
void clip_factor_reference(Exec& exec, const ClipFactor& arguments);

}  // namespace megalith::kernels

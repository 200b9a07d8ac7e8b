// SPDX-License-Identifier: Apache-2.0
// Scales from a history of magnitudes: the update of Transformer Engine's DelayedScaling
// (common/recipe/delayed_scaling.cu, the form after a reduction), to the bit.
#pragma once

#include "kernels/exec.h"
#include "kernels/narrow/scale_rule.h"

namespace megalith::kernels {

/// Which magnitude of the history a scale is made from.
enum class AmaxChoice : uint8_t { max, most_recent };

/// For each of N tensors, whose magnitude of this step is in row 0 of the history:
///   a = history[0]
///   if a != 0: the rows move up by one (row i becomes row i + 1, the last one a, and row 0 is 0)
///   amax = choice is max ? max(a, rows 1 to H - 1 as they were), NaN passed over : a
///   scale = (largest 2^-margin) / amax if amax is finite and > 0, the largest float if that is
///           infinite, else as it was; rounded down to a power of two if asked
///   scale_inverse = 1 / scale
/// A tensor that was not used has a = 0: nothing of it changes. Quotients are of f32. All f32,
/// contiguous, read and overwritten. Local; ready as of a later ticket.
struct UpdateScales {
  View history_HN = {};
  View scale_N = {};
  View scale_inverse_N = {};
  float largest = 448;  // that the codes of these tensors hold
  int margin = 0;
  AmaxChoice choice = AmaxChoice::max;
  bool power_of_two = false;
};
void update_scales(Exec& exec, const UpdateScales& arguments);

/// factor = scale_from_amax(amax) (scale_rule.h), inverse = 1 / factor: f32 [1] each; factor and
/// inverse are overwritten. Local; ready as of a later ticket.
struct ScaleOfAmax {
  ConstView amax;
  View factor;
  View inverse;
  ScaleRule rule = {};
};
void scale_of_amax(Exec& exec, const ScaleOfAmax& arguments);

}  // namespace megalith::kernels

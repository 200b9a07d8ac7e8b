// SPDX-License-Identifier: Apache-2.0
// The scales of tensors that are kept in 8 bits: one object for four policies, by the rules of
// Transformer Engine (common/recipe/__init__.py).
//   delayed   a scale per tensor, from the magnitudes of earlier steps (DelayedScaling)
//   current   a scale per tensor, from its own magnitude (Float8CurrentScaling)
//   block     a scale per 128 elements along the sum, of weights per 128 x 128; powers of two
//             (Float8BlockScaling)
//   mx        an exponent per 32 elements along the sum (MXFP8BlockScaling)
// Beside them, unscaled: numbers as they are, to see what scaling is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "kernels/exec.h"
#include "kernels/narrow/scale_update.h"

namespace megalith::precision {

enum class ScalingPolicy : uint8_t { delayed, current, block, mx, unscaled };
/// The codes of operands: all e4m3, or hybrid, where output gradients are e5m2.
enum class Fp8Format : uint8_t { e4m3, hybrid };
/// Which operand of its product a tensor is.
enum class Operand : uint8_t { input, weight, output_gradient };
/// What a product sums over: the columns of a [T, C] tensor, or its rows.
enum class Along : uint8_t { columns, rows };

struct ScalingOptions {
  ScalingPolicy policy = ScalingPolicy::delayed;
  Fp8Format format = Fp8Format::hybrid;
  int64_t history = 1024;  // delayed: steps, at least 1
  kernels::AmaxChoice choice = kernels::AmaxChoice::max;
  int margin = 0;             // delayed: scales are 2^-margin of what would fill the range
  bool power_of_two = false;  // of scales; mx has no others
  float epsilon = 0;          // current and block: a magnitude counts as at least this

  /// A policy with its defaults: block and mx have e4m3 throughout, block powers of two.
  static ScalingOptions of(ScalingPolicy policy);
};

class Scaling {
 public:
  /// All tensors of one operand kind of a model, by logical name, in the order of declaration.
  /// Takes memory for their state (class optimizer): magnitudes 0, scales 1. InternalError if the
  /// options make no sense.
  Scaling(device::Device& device, const ScalingOptions& options, Operand operand,
          std::vector<std::string> names);

  const ScalingOptions& options() const { return options_; }
  const std::vector<std::string>& names() const { return names_; }
  DType code_type() const;
  bool scales_tensors() const {
    return options_.policy != ScalingPolicy::block && options_.policy != ScalingPolicy::mx;
  }
  /// The type and shape of what multiplies the codes of a [T, C] tensor: f32 [1], or one for each
  /// block.
  DType scale_type() const;
  Shape scale_shape(const Shape& shape, Along along) const;

  /// current: amax, f32 [1], becomes the larger of itself and the magnitude of x. The caller
  /// reduces it to its maximum over the ranks that hold parts of the tensor before quantize().
  static void measure(kernels::Exec& exec, ConstView x, View amax);

  /// codes = x quantised by the policy, [T, C]; `scales` receives what multiplies them, as
  /// scale_shape() says. `amax`, with current alone, is what measure() found. Optional, where
  /// tensors have one scale: `transposed`, the codes as [C, T], and `counts` (kernels::Quantize).
  /// All overwritten, counts added to. Of no elements the scale alone. Local; ready as of a later
  /// ticket.
  struct Destination {
    View codes;
    View scales;
    ConstView amax = {};
    View transposed = {};
    View counts = {};
  };
  /// Whether the magnitude of x joins those of this step. Not in a recomputed pass.
  enum class Record : uint8_t { amax, nothing };
  void quantize(kernels::Exec& exec, size_t index, ConstView x, const Destination& to,
                Record record = Record::amax, Along along = Along::columns);

  /// block and mx: numbers = what the codes of x stand for, bf16, [T, C], overwritten: exact, since
  /// scales are powers of two (bf16's denormals aside, which products take as zeros).
  void round(kernels::Exec& exec, ConstView x, View numbers, Along along) const;

  /// Joins the magnitude of x to those of this step, as quantize() does. delayed; else nothing.
  void record(kernels::Exec& exec, size_t index, ConstView x);

  /// delayed: the magnitudes of this step, f32 [N], to be reduced to their maximum over all ranks
  /// that hold parts of these tensors before update(). Absent with other policies.
  View staged() const;
  /// The tensor's history and scale as they are at the beginning.
  void forget(kernels::Exec& exec, size_t index);
  /// Ends a step: rolls the histories and makes the next scales. delayed; else nothing to do.
  void update(kernels::Exec& exec);

  /// What a checkpoint must hold, the same on every rank: magnitudes f32 [history, N] and scales
  /// f32 [N]. Absent with policies other than delayed, which keep nothing; unscaled has a scale, of
  /// ones.
  View history() const { return history_HN_.view; }
  View scale() const { return scale_N_.view; }
  /// After both were read into their places on the host: makes what follows from them.
  /// IntegrityError naming the first tensor whose scale is not a positive number, or whose history
  /// has a negative number or NaN.
  void restored();

 private:
  /// Of blocks of numbers of this type.
  kernels::ScaleRule block_rule(DType numbers) const;
  void quantize_blocks(kernels::Exec& exec, ConstView x, const Destination& to, Along along) const;

  ScalingOptions options_;
  Operand operand_;
  std::vector<std::string> names_;
  device::Tensor history_HN_;                 // delayed
  device::Tensor scale_N_, scale_inverse_N_;  // delayed, and ones of unscaled
};

}  // namespace megalith::precision

// SPDX-License-Identifier: Apache-2.0
// The three matrix products of a layer's weights. They are of the tensors as they are stored, or in
// 8 bits (precision/fp8.h), where each operand is replaced by its codes first:
//   delayed, current   products are of codes; a finished sum is multiplied once by both scales
//   block, mx          products are of the numbers that codes stand for, which bf16 holds exactly
// Weights that are stored in 8 bits (tensor/blocks.h: fp8) have a scale for each output, which
// multiplies a finished sum too.
// No bit depends on ranks or micro-batches. A magnitude is that of a logical tensor: with `delayed`
// of a whole step, with `current` of one sample's rows. Blocks begin anew with every canonical
// shard and, along tokens, with every sample. Gradients of weights add up sample by sample.
#pragma once

#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/matmul/linear.h"
#include "layers/context.h"
#include "parameters/parameter.h"
#include "precision/fp8.h"

namespace megalith::layers {

using precision::InputCodes;
using precision::InputKept;

/// How a product lies over the tensor ranks.
struct ProductCut {
  std::vector<Range> outputs, inputs;  // local rows and columns of w whose blocks begin anew
  bool outputs_cut = false;            // other tensor ranks have more rows of w
  bool inputs_cut = false;             // or columns
};

/// Equal parts of `count`.
std::vector<Range> equal_parts(int64_t count, int64_t parts);

/// One product in one pass: made by a layer for a call, with scratch of its own until it goes.
class Product {
 public:
  /// What it is given must outlive it. x, y and their gradients are rows of whole samples, the same
  /// number of each.
  Product(Context& context, const Batch& batch, const parameters::Parameter& weight,
          const ProductCut& cut);

  /// kernels::linear_forward with this weight: `w_OI` and `scale` are set here. Fills `keep` unless
  /// null, where input_kept() says codes. Collective over the tensor ranks where magnitudes are
  /// (`current`).
  void forward(kernels::LinearForward arguments, InputCodes* keep = nullptr);
  /// The same, of sums that are not complete: scale() is still to come.
  void forward_sums(kernels::LinearForward arguments, InputCodes* keep = nullptr);

  /// Of the same rows, before the gradients. dy_TO of all tokens.
  void set_output_gradient(ConstView dy_TO);
  /// kernels::linear_backward_input: `dy_TO`, `w_OI` and `scale` are set here. `by_shard`, unless
  /// empty, is the order in which the contraction takes the local rows of w.
  void input_gradient(kernels::LinearBackwardInput arguments,
                      const std::vector<ShardRun>& by_shard = {});
  void input_gradient_sums(kernels::LinearBackwardInput arguments,
                           const std::vector<ShardRun>& by_shard = {});
  /// dw_OI += dy^T x. With what forward kept x is not read.
  void weight_gradient(ConstView x_TI, View dw_OI, const InputCodes* kept = nullptr) const;

  /// Multiplies sums over ranks, f32 [rank's own tokens, ...], by what the last product of sums
  /// left out. In place.
  void scale(View sums) const;

 private:
  /// A tensor as products read it.
  struct Read {
    ConstView view;
    ConstView scales;           // f32, one for each sample, or one; absent: none
    device::Tensor made, kept;  // what they lie in, unless it is the tensor itself
  };
  /// What multiplies sums back: f32, one for each sample, or one; absent: nothing.
  using Factors = device::Tensor;

  /// Whether its elements are counted (Fp8::count): once for each operand.
  enum class Reading : uint8_t { first, again };

  bool is_narrow() const { return index_.has_value(); }
  Read read(precision::Operand operand, ConstView x, precision::Along along,
            Reading reading = Reading::again, InputCodes* keep = nullptr) const;
  Read read_weight(precision::Along along) const;
  Read codes(precision::Operand operand, ConstView x, Reading reading, InputCodes* keep) const;
  Read numbers(precision::Operand operand, ConstView x, precision::Along along) const;
  bool is_cut(precision::Operand operand) const;
  Weight weight_of(const Read& read) const;
  Factors run(kernels::LinearForward arguments, InputCodes* keep, bool finished) const;
  Factors run(kernels::LinearBackwardInput arguments, const std::vector<ShardRun>& by_shard,
              bool finished) const;

  Context& context_;
  const Batch& batch_;
  const parameters::Parameter& weight_;
  const ProductCut& cut_;
  std::optional<size_t> index_;
  ConstView dy_TO_;
  Read dy_;                    // as the gradient of the input reads it
  Factors pending_;            // of sums that are not complete
  ConstView pending_of_rows_;  // likewise, of a weight in fp8: f32 [O]
};

}  // namespace megalith::layers

// SPDX-License-Identifier: Apache-2.0
// The path around a sublayer f (attention, cross attention or MLP): its norms, dropout and the sum
// with the residual stream. What NormPlace says, with x what f's path reads and b the stream it
// adds to (b is x but for the MLP of a parallel block):
//   pre      y = b + drop(f(norm(x)))
//   post     y = norm(b + drop(f(x)))
//   both     y = b + drop(norm_out(f(norm(x))))
//   output   y = b + drop(norm(f(x)))
// f's output is multiplied by the layer's residual_scale before dropout.
#pragma once

#include <optional>

#include "base/function_ref.h"
#include "layers/norm.h"

namespace megalith::layers {

struct ResidualSaved {
  NormSaved norm_in, norm_out;
  device::Tensor h_TH;  // output of the norm before f; absent when recomputed, or f keeps its codes
  InputKept kept_h = InputKept::numbers;
  device::Tensor o_TH;  // input of the norm after f
};

struct ResidualConfig {
  const LayerSpec& layer;  // read by the constructor
  int64_t hidden = 0;
  int64_t number = 0;  // of the layer in the model
  DropoutSite site = DropoutSite::attention;
};

class Residual {
 public:
  /// Declares `name` (with norms on both sides also `name`_out).
  Residual(parameters::ParameterSet& set, const std::string& name, const ResidualConfig& config,
           const Partition& partition);

  /// Writes f(h_TH) to o_TH.
  using Sublayer = FunctionRef<void(ConstView h_TH, View o_TH)>;
  struct Stream {
    ConstView x_TH;
    ConstView base_TH;
    View y_TH;  // overwritten; must not alias x or base
  };
  /// Whether f's input is the output of a norm that nobody else has.
  bool has_norm_before() const { return norm_in_.has_value(); }
  /// Fills `saved` unless null. `kept_h`: whether the output of the norm before f is kept, f keeps
  /// its codes, or backward makes it again. Collective as `sublayer` is, else local.
  void forward(Context& context, const Batch& batch, const Stream& stream, ResidualSaved* saved,
               InputKept kept_h, Sublayer sublayer) const;

  /// Writes to dh_TH the gradient of what forward gave f, h_TH (absent where f has its codes), for
  /// the gradient do_TH of its output.
  using SublayerBackward = FunctionRef<void(ConstView do_TH, ConstView h_TH, View dh_TH)>;
  struct StreamGradients {
    ConstView dy_TH;
    ConstView dbase_TH;  // what the stream passes by f: dy_TH itself unless the block is parallel
    View dx_TH;          // overwritten; may alias dy or dbase
  };
  /// dx = gradient of x through f and the norms + dbase; the norms' weights' gradients accumulate.
  /// Collective as `sublayer` is, else local.
  void backward(Context& context, const Batch& batch, const StreamGradients& gradients,
                ConstView x_TH, const ResidualSaved& saved, SublayerBackward sublayer) const;

 private:
  void add_to_stream(Context& context, const Batch& batch, ConstView base_TH, View o_TH) const;
  ConstView undo_dropout(Context& context, const Batch& batch, ConstView dy_TH,
                         device::Tensor& buffer) const;
  NormPlace place_;
  float scale_;
  int64_t number_;
  DropoutSite site_;
  std::string norm_name_;
  std::optional<Norm> norm_in_, norm_out_;
};

}  // namespace megalith::layers

// SPDX-License-Identifier: Apache-2.0
// What heads read: rows behind the last block, through the model's final norm and a transform where
// it has them:
//   h = norm(x)
//   y = norm_t(act(h W^T + b))
#pragma once

#include <optional>
#include <string_view>

#include "layers/norm.h"
#include "layers/whole_linear.h"

namespace megalith::layers {

/// Rows of all tokens of a batch, on every tensor rank.
struct HeadRows {
  device::Tensor own;       // where a rank's own tokens are all
  device::Tensor gathered;  // with sequence parallelism
  ConstView plain;          // x itself, where nothing is between
  ConstView rows_TE() const {
    if (!gathered.view.absent()) return gathered.view;
    return own.view.absent() ? plain : ConstView(own.view);
  }
};

struct HeadInputConfig {
  std::optional<NormSpec> norm = {};
  std::optional<TransformSpec> transform = {};
  int64_t hidden = 0;
  int64_t width = 0;  // that a transform goes to
  double init_std = 0.02;
};

/// What backward needs; of the rank's own tokens.
struct HeadInputSaved {
  NormSaved norm;
  device::Tensor h_TH;          // the transform's input, where it is not x
  device::Tensor u_TE, act_TE;  // before and behind its activation
  NormSaved transform_norm;
};

class HeadInput {
 public:
  /// Declares "final_norm", "head.transform" and "head.transform_norm" where they are.
  HeadInput(parameters::ParameterSet& set, const HeadInputConfig& config,
            const Partition& partition);

  int64_t width() const { return width_; }
  /// The rows, on every tensor rank; x_TH: the rank's own tokens, which the result may refer to.
  /// Fills `saved` unless null. Collective over the tensor ranks when the own tokens are not all;
  /// `label` names the gather.
  HeadRows forward(Context& context, const Batch& batch, ConstView x_TH, HeadInputSaved* saved,
                   std::string_view label) const;
  /// The same of any rows, for inference. Local.
  HeadRows rows(Context& context, ConstView x_RH) const;
  /// The final norm's output alone, which others call the last hidden state. y is overwritten.
  void last_hidden(Context& context, ConstView x_RH, View y_RH) const;
  /// dx_TH overwritten; gradients of weights accumulate. dy_TE and x_TH: the rank's own tokens; dy
  /// is used up. Collective over the tensor ranks when they are not all.
  void backward(Context& context, const Batch& batch, View dy_TE, ConstView x_TH,
                const HeadInputSaved& saved, View dx_TH) const;

 private:
  struct Transform {
    WholeLinear product;
    kernels::Activation activation;
    Norm norm;
  };
  device::Tensor own_rows(Context& context, ConstView x_TH, HeadInputSaved* saved) const;
  void transform(Context& context, ConstView h_TH, View y_TE, HeadInputSaved* saved) const;
  int64_t width_;
  std::optional<Norm> norm_;
  std::optional<Transform> transform_;
};

}  // namespace megalith::layers

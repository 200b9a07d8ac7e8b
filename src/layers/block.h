// SPDX-License-Identifier: Apache-2.0
// One transformer block, pre-norm (GPT-2):
//   x1 = x + drop(attention(norm_1(x)));   y = x1 + drop(mlp(norm_2(x1)))
// and what of it is kept for backward, by recompute mode (Korthikanti et al. 2022, section 5):
//   none       every input of a product, and materialised probabilities
//   selective  materialised attention: not its probabilities, the core runs again; streaming
//              attention, which never has them: not what an element-wise pass makes again, norm
//              outputs and the activation's output
//   full       nothing but the block's input; forward runs again
#pragma once

#include "layers/attention.h"
#include "layers/mlp.h"
#include "layers/norm.h"

namespace megalith::layers {

enum class Recompute { none, selective, full };

/// The mode of each layer of a stage: `full` for the first ones, `mode` for the others.
struct RecomputePolicy {
  Recompute mode = Recompute::none;
  int64_t full_layers = 0;
  Recompute of(int64_t layer) const { return layer < full_layers ? Recompute::full : mode; }
  /// Of the layers from `begin` on.
  RecomputePolicy from(int64_t begin) const {
    return {mode, full_layers > begin ? full_layers - begin : 0};
  }
};

struct BlockSaved {
  NormSaved norm_1, norm_2;
  AttentionSaved attention;
  MlpSaved mlp;
  device::Tensor x1_TH;                       // the residual stream between the halves
  device::Tensor h1_TH, h2_TH;                // norm outputs; absent when recomputed
  device::Tensor paper_mask_1, paper_mask_2;  // Context::paper_storage
};

struct BlockConfig {
  AttentionConfig attention;
  int64_t hidden = 0;
  int64_t ffn = 0;
  kernels::Activation activation = kernels::Activation::gelu_tanh;
  double norm_eps = 1e-5;
  double init_std = 0.02;
  double output_init_std = 0.02;  // of projections into the residual stream
};

class Block {
 public:
  /// `number` is the block's place in the whole model: names its parameters and its dropout draws.
  /// `cache_layer` is its place on this rank.
  Block(parameters::ParameterSet& set, int64_t number, int64_t cache_layer,
        const BlockConfig& config, const Partition& partition);

  /// y_TH overwritten; must not alias x. Fills `saved` unless null. Collective over the tensor
  /// ranks.
  void forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH, BlockSaved* saved,
               Recompute recompute) const;
  /// dx_TH overwritten; may alias dy. x_TH is forward's. With `full`, `saved` is filled anew first.
  void backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                BlockSaved& saved, Recompute recompute, View dx_TH) const;

 private:
  void mlp_backward(Context& context, const Batch& batch, ConstView dy_TH, const BlockSaved& saved,
                    View dx_TH) const;
  void attention_backward(Context& context, const Batch& batch, ConstView dy_TH, ConstView x_TH,
                          const BlockSaved& saved, View dx_TH) const;
  bool materialised_;
  int64_t number_;
  int64_t cache_layer_;
  std::string name_;
  Norm norm_1_;
  Attention attention_;
  Norm norm_2_;
  Mlp mlp_;
};

}  // namespace megalith::layers

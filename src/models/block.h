// SPDX-License-Identifier: Apache-2.0
// One transformer block, attention and MLP on the residual stream:
//   x1 = x + attention(x);   y = x1 + mlp(x1)        parallel: y = x + attention(x) + mlp(x)
// or with cross attention (Vaswani et al. 2017) between them
//   x1 = x + attention(x);   x2 = x1 + cross(x1, memory);   y = x2 + mlp(x2)
// with norms and dropout as residual.h says, and what of it is kept for backward, by recompute mode
// (Korthikanti et al. 2022, section 5):
//   none       every input of a product (InputKept in 8 bits), and materialised probabilities
//   selective  materialised attention: not its probabilities, the core runs again; streaming
//              attention, which never has them: not what an element-wise pass makes again, norm
//              outputs and the activation's output
//   full       nothing but the block's input; forward runs again
#pragma once

#include <optional>

#include "config/choices.h"
#include "layers/attention.h"
#include "layers/cross_attention.h"
#include "layers/mlp.h"
#include "layers/residual.h"

namespace megalith::layers {

using config::Recompute;

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
  ResidualSaved attention_path, cross_path, mlp_path;
  AttentionSaved attention;
  CrossAttentionSaved cross;
  MlpSaved mlp;
  device::Tensor x1_TH;  // the residual stream between the halves; absent when parallel
  device::Tensor x2_TH;  // behind cross attention, if there is one
};

struct BlockConfig {
  LayerSpec spec;
  int64_t hidden = 0;
  int64_t context = 0;  // of the model: what scaled positions reach
  double init_std = 0.02;
  double output_init_std = 0.02;                    // of projections into the residual stream
  const parameters::Parameter* relative = nullptr;  // table of self-attention's, if it has one
};

/// What a block's backward is given besides what forward saved.
struct BlockGradients {
  ConstView dy_TH;
  View dx_TH;  // overwritten; may alias dy
};

class Block {
 public:
  /// `place`: where the block is, which names its parameters and its dropout draws.
  Block(parameters::ParameterSet& set, const LayerPlace& place, const BlockConfig& config,
        const Partition& partition);

  /// y_TH overwritten; must not alias x. Fills `saved` unless null. With cross attention the batch
  /// has its memory. Collective over the tensor ranks.
  void forward(Context& context, const Batch& batch, ConstView x_TH, View y_TH, BlockSaved* saved,
               Recompute recompute) const;
  /// x_TH is forward's. With `full`, `saved` is filled anew first. Gradients of weights and
  /// the memory's accumulate. Collective over the tensor ranks.
  void backward(Context& context, const Batch& batch, const BlockGradients& gradients,
                ConstView x_TH, BlockSaved& saved, Recompute recompute) const;

  /// CrossAttention::keep of a block that has it.
  void keep_memory(Context& context, const Memory& memory, const KvCacheBinding& cache) const {
    const device::NameScope scope(context.device(), name_);
    cross_.value().attention.keep(context, memory, cache);
  }

 private:
  struct CrossHalf {
    Residual path;
    CrossAttention attention;
  };
  static std::optional<CrossHalf> make_cross(parameters::ParameterSet& set, const LayerPlace& place,
                                             const BlockConfig& config, const Partition& partition);
  void forward_cross(Context& context, const Batch& batch, ConstView x_TH, View y_TH,
                     BlockSaved* keep, Recompute recompute) const;
  void backward_cross(Context& context, const Batch& batch, View dx_TH,
                      const BlockSaved& saved) const;
  bool is_parallel_;
  bool materialised_;
  std::string name_;
  Residual attention_path_;
  Attention attention_;
  std::optional<CrossHalf> cross_;
  Residual mlp_path_;
  Mlp mlp_;
};

}  // namespace megalith::layers

// SPDX-License-Identifier: Apache-2.0
// Everything that one training step depends on, worked out from a recipe: no defaults are left to
// choose. Plans and runs are made from the same settings.
#pragma once

#include "kernels/exec.h"
#include "models/block.h"
#include "optim/adamw.h"
#include "optim/schedule.h"
#include "parallel/mesh.h"
#include "parallel/schedule.h"
#include "precision/fp8.h"
#include "precision/loss_scaler.h"
#include "spec/head_types.h"
#include "spec/model_spec.h"

namespace megalith::engine {

/// Products of layers in 8 bits, but those of the first and the last ones.
struct Fp8Layers {
  precision::Fp8Options options;
  int64_t first_wide = 0;
  int64_t last_wide = 0;
  precision::GuardOptions guard = {};
};

struct Settings {
  models::ModelSpec model;
  parallel::Layout layout;
  parallel::CanonicalSplit split;
  parallel::ScheduleKind pipeline_schedule = parallel::ScheduleKind::one_forward_one_backward;
  kernels::Numerics numerics = kernels::Numerics::exact;
  layers::RecomputePolicy recompute;  // of the layers of a stage
  int zero = 0;                       // 1: masters and moments are spread over the data ranks
  /// Compute representation: f32, bf16, f16 (f64 in gradient checks).
  DType weights = DType::f32;
  DType activations = DType::f32;  // likewise
  /// What losses are multiplied by before they are differentiated; absent: nothing.
  std::optional<precision::LossScaleOptions> loss_scale;
  std::optional<Fp8Layers> fp8;  // absent: no product is in 8 bits
  /// Of keys and values that are kept for later tokens: f32, bf16, f16, or i8 with scales
  /// (kernels/attention/kv_cache.h); the activations' when absent.
  std::optional<DType> cache = {};
  DType masters = DType::f32;  // f32 (f64 in gradient checks)
  uint64_t seed = 1234;
  int64_t micro_batch = 1;     // samples
  int64_t trained_length = 0;  // tokens of a sample; 0: the model's context
  /// Of an encoder-decoder, whose encoder reads samples of that many: what the decoder's have.
  int64_t decoder_length = 0;
  /// Most tokens of a sample that weigh anything, where losses are of tokens; 0: all. The head then
  /// leaves the others out.
  int64_t predicted_per_sample = 0;
  bool ragged = false;  // a sample may be several sequences (document mask)
  optim::BatchRamp batch;
  optim::Schedule schedule;
  optim::AdamWOptions adamw;
  std::vector<std::string> frozen;  // globs over names of parameters that are not trained
  /// What trains beside products, and nothing else does (low_rank/, ia3/); null: the weights do.
  /// Weights are then no part of a training state.
  layers::MakeFactors factors;
  layers::VirtualTokens virtual_tokens;  // likewise before texts (prompts/)
  /// Whether the model's head trains with them, as PEFT's modules_to_save do: part of what they
  /// add, stored in the masters' type, so that what is evaluated is what trained.
  bool trains_head = false;
  /// Losses are of pairs of answers; absent: what the model's head makes of its units.
  std::optional<layers::PreferenceLoss> preferences;
  /// By name, of parameters that are stored otherwise than `weights` says: in blocks, for reading.
  parameters::StorageFormats formats;
  double clip = 1;  // infinity: off
  double z_loss = 0;
  int64_t bucket_elements = parameters::kBucketElements;  // of gradients; moves no bit

  /// Tokens of a sample that the first layers read.
  int64_t sequence_length() const { return trained_length > 0 ? trained_length : model.context; }
  /// And the last ones, which have the losses.
  int64_t loss_length() const {
    return model.is_encoder_decoder() ? decoder_length : sequence_length();
  }
  /// Partial rows of gradients that sum over tokens: the tensor shards when they divide a sample.
  int token_partials() const {
    const bool whole =
        sequence_length() % split.tensor_shards == 0 && loss_length() % split.tensor_shards == 0;
    return whole ? split.tensor_shards : 1;
  }
  /// For sets of this run's parameters: what is frozen, and how it is stored.
  parameters::DeclarationRule declaration_rule() const;
  bool trains_beside_weights() const { return factors || virtual_tokens.count > 0; }
  /// Whether the layer's products are in 8 bits.
  bool is_fp8(int64_t layer) const {
    return fp8 && layer >= fp8->first_wide && layer < model.num_layers() - fp8->last_wide;
  }
  /// Names of the weights whose products are, in the whole model, in order.
  std::vector<std::string> fp8_products() const;
  /// Tokens between products are spread over the tensor ranks.
  bool sequence_parallel() const { return layout.sequence && layout.tensor > 1; }
  /// Data shards that one data rank sums.
  int shards_per_rank() const { return exact_div(split.data_shards, layout.data); }
};

/// How the layers of the ranks at one place of the tensor axis are cut.
layers::Partition partition_of(const Settings& settings, int tensor_rank);
/// The whole model on one rank.
layers::Partition undivided(const Settings& settings);

/// Everything that the layout breaks, in one UserError naming the values to set: for settings that
/// were put together from a recipe (whose own rules are in config/rules.cpp) and something else.
void check(const Settings& settings, const std::string& where);

}  // namespace megalith::engine

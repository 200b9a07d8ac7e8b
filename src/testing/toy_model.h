// SPDX-License-Identifier: Apache-2.0
// A model that trains in milliseconds and still has every part of a real one, and samples to train
// it on. A sample is a function of its number alone, so any layout and micro-batch reads the same
// data.
#pragma once

#include "data/host_batch.h"
#include "engine/settings.h"
#include "families/families.h"

namespace megalith::testing {

/// 3 blocks (so that pipeline stages are uneven), 4 heads, a canonical split of 4 x 2, 8 samples of
/// 16 tokens a step, learning rate 0.01, dropout, z-loss, and clipping that bites.
engine::Settings toy_settings();

/// The same with a Llama's layers: grouped heads wider than hidden / heads, rotary positions, in
/// the first layer scaled by the length of the sequence; the second layer sees a window alone, the
/// third's scores are capped and its queries and keys have norms; untied, no biases.
engine::Settings toy_llama_settings();

/// The toy with relative positions instead of learned ones, of fewer buckets than its samples have
/// distances.
engine::Settings toy_relative_settings();

/// An encoder of two layers, whose samples have 16 tokens, and a decoder of three, whose have 8,
/// with rotary positions.
engine::Settings toy_encoder_decoder_settings();

/// The last layers of seven of a family, so that those with a window and those without meet; the
/// windows and caps of a toy, scaled positions where the family is known for them. Of an
/// encoder-decoder as many layers in its decoder and one less in its encoder.
models::ModelSpec toy_family_model(const models::Family& family, const models::Sizes& sizes);
/// The toy with three of them.
engine::Settings toy_family_settings(const models::Family& family);

/// The toy model with a head of sequences: three classes of the last row through a dense layer with
/// a tanh, or of each token's, or two numbers of the mean of all rows, or a begin and an end.
engine::Settings toy_sequence_settings(layers::HeadKind kind);

/// In bf16 with products in 8 bits, whose histories roll over within three steps.
engine::Settings in_fp8(engine::Settings settings, precision::ScalingPolicy policy);

/// In f16, with a loss scale that overflows and grows within a few steps.
engine::Settings in_f16(engine::Settings settings);

/// One of several settings that a test goes through.
struct Variant {
  const char* name;
  engine::Settings settings;
};

/// A change of every layer of a model.
void set_kv_heads(models::ModelSpec& model, int64_t kv_heads);
void set_ffn(models::ModelSpec& model, int64_t ffn);
void set_materialised(models::ModelSpec& model, bool materialised = true);

/// Samples [first, first + count): token after token, next = 7 token + 3 + noise (mod vocabulary),
/// so there is something to learn. With `settings.ragged` some samples hold two documents that
/// attention must not join, and the last token of each document has weight 0. With virtual tokens
/// documents begin with them. For a head of
/// sequences: a target of each document, that its last token tells, and weights of 0, 1 and 2. With
/// preferences: pairs of answers, up to three a sample, whose first token is not learned, of
/// weights 1 and 2.
data::HostBatch toy_batch(const engine::Settings& settings, int64_t first, int64_t count);

/// The micro-batches of data rank `data_rank` in step `step` (from 1), in sample order; the batch
/// grows as the settings' ramp says.
std::vector<data::HostBatch> toy_micro_batches(const engine::Settings& settings, int64_t step,
                                               int data_rank);

/// Sum of the loss weights of the step's samples over all ranks.
double toy_weight(const engine::Settings& settings, int64_t step);

}  // namespace megalith::testing

// SPDX-License-Identifier: Apache-2.0
// A batch, the rows of another sequence, and layers that read both.
#pragma once

#include "models/block.h"
#include "testing/layer_case.h"

namespace megalith::testing {

inline constexpr int64_t kCrossHidden = 16;

/// Three ragged samples of 8 tokens, and a memory of 12 for each: in both some samples hold two
/// sequences, of other lengths here than there.
struct CrossCase {
  explicit CrossCase(const engine::Settings& settings, const LayerRank& rank = {})
      : c(settings, kSamples, rank),
        host(toy_batch(memory_settings(settings), 0, kSamples)),
        memory_batch(c.device(), host, {.max_sequences = host.num_sequences()}, host.total_weight,
                     c.token_part()),
        rows(c.random_rows(memory_batch.batch(), kCrossHidden, "memory")),
        gradient(c.context().workspace(settings.masters, rows.view.shape())),
        x(c.random_rows(c.batch(), kCrossHidden, "x")),
        dy(c.random_rows(c.batch(), kCrossHidden, "dy")),
        y(c.tensor(x.view.shape())),
        dx(c.tensor(x.view.shape())),
        memory{&memory_batch.batch(), rows, gradient},
        batch(c.batch()) {
    batch.memory = &memory;
    c.device().fill_zero(gradient);
  }

  static constexpr int64_t kSamples = 3;
  static engine::Settings memory_settings(engine::Settings settings) {
    settings.model.context = 12;
    return settings;
  }
  LayerCase c;
  data::HostBatch host;
  engine::DeviceBatch memory_batch;
  device::Tensor rows, gradient, x, dy, y, dx;
  layers::Memory memory;
  layers::Batch batch;
};

inline layers::AttentionSpec cross_spec(int64_t kv_heads,
                                        layers::QkNorm qk_norm = layers::QkNorm::none) {
  return {.heads = 4,
          .kv_heads = kv_heads,
          .head_dim = 8,
          .qk_norm = qk_norm,
          .softcap = 5,
          .causal = false};
}
inline layers::AttentionConfig cross_config(const layers::AttentionSpec& spec) {
  return {.spec = spec, .norm = {layers::NormKind::rms, 1e-5, 0, false}, .hidden = kCrossHidden};
}
inline layers::LayerSpec crossed_layer(layers::QkNorm qk_norm) {
  layers::LayerSpec spec;
  spec.attention = cross_spec(2);
  spec.cross = cross_spec(4, qk_norm);
  spec.mlp.ffn = 24;
  return spec;
}

}  // namespace megalith::testing

// SPDX-License-Identifier: Apache-2.0
#include "sizing/model_flops.h"

#include <algorithm>

namespace megalith::sizing {
namespace {

double product(int64_t rows, int64_t inputs, int64_t outputs) {
  return 2 * static_cast<double>(rows) * static_cast<double>(inputs) * static_cast<double>(outputs);
}

/// Both products of attention. A window bounds the keys of a query.
double scores(const layers::AttentionSpec& a, int64_t queries, int64_t keys) {
  const int64_t seen = a.window > 0 ? std::min(a.window, keys) : keys;
  return 2 * product(queries, seen, a.query_width());
}

}  // namespace

ForwardFlops forward_flops(const engine::Settings& s) {
  const models::ModelSpec& m = s.model;
  const int64_t read = s.sequence_length(), written = s.loss_length();
  ForwardFlops flops;
  for (int64_t i = 0; i < m.num_layers(); ++i) {
    const layers::LayerSpec& layer = m.layer(i);
    const int64_t tokens = m.is_encoder_layer(i) ? read : written;
    const layers::AttentionSpec& a = layer.attention;
    flops.layers +=
        product(tokens, m.hidden, a.qkv_width()) + product(tokens, a.query_width(), m.hidden) +
        product(tokens, m.hidden, layer.mlp.up_width()) + product(tokens, layer.mlp.ffn, m.hidden);
    flops.scores += scores(a, tokens, tokens);
    if (!layer.cross) continue;
    flops.layers += 2 * product(tokens, m.hidden, layer.cross->query_width()) +
                    product(read, m.hidden, layer.cross->kv_width());
    flops.scores += scores(*layer.cross, tokens, read);
  }
  const int64_t losses = s.predicted_per_sample > 0 ? s.predicted_per_sample : written;
  flops.head = product(losses, m.table_width(), m.vocab);
  if (m.head.transform) flops.head += product(losses, m.hidden, m.table_width());
  if (m.embedding.width != 0) flops.layers += product(read, m.embedding.width, m.hidden);
  return flops;
}

double training_flops(const ForwardFlops& f, layers::Recompute recompute) {
  const double model = 3 * (f.layers + f.scores + f.head);
  if (recompute == layers::Recompute::selective) return model + f.scores;
  if (recompute == layers::Recompute::full) return model + f.layers + f.scores;
  return model;
}

}  // namespace megalith::sizing

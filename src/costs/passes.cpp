// SPDX-License-Identifier: Apache-2.0
#include "costs/passes.h"

#include <algorithm>

namespace megalith::costs {

using layers::AttentionSpec;
using layers::LayerSpec;
using layers::Recompute;

PassTime& PassTime::operator+=(const PassTime& other) {
  compute += other.compute;
  wire += other.wire;
  return *this;
}

Passes& Passes::operator+=(const Passes& other) {
  forward += other.forward;
  backward += other.backward;
  again += other.again;
  weights += other.weights;
  model_flops += other.model_flops;
  return *this;
}

clusters::ProductType product_type(const engine::Settings& settings) {
  if (settings.activations == DType::f16) return clusters::ProductType::f16;
  return settings.activations == DType::f32 ? clusters::ProductType::f32
                                            : clusters::ProductType::bf16;
}

double pairs_of(const AttentionSpec& a, double queries, double keys) {
  const auto window = static_cast<double>(a.window);
  if (!a.causal) return window > 0 ? queries * std::min(keys, 2 * window - 1) : queries * keys;
  if (window > 0 && window < keys) return window * (keys - window) + window * (window + 1) / 2;
  return queries * (keys + 1) / 2;
}

/// Adds operations to passes. Rows are tokens of the micro-batch; element sizes are those of the
/// activations.
class PartTimes::Builder {
 public:
  Builder(const engine::Settings& s, const DeviceTime& device, bool fp8)
      : s_(s),
        device_(device),
        execution_(device.cluster().execution),
        fp8_(fp8),
        tensor_(s.layout.tensor),
        spread_(s.sequence_parallel() ? tensor_ : 1),
        element_(device.element_bytes()) {}

  /// y[rows, columns] = x[rows, depth] w: this rank's part, with its gradients.
  void linear(double rows, double columns, double depth) {
    Passes& p = passes_;
    p.forward.compute += device_.product({rows, columns, depth}, fp8_) + cast(rows * depth);
    const double input = device_.product({rows, depth, columns}, fp8_);
    const bool narrow = fp8_ && s_.fp8->options.weight_gradients;
    const double weight = device_.product({columns, depth, rows}, narrow);
    // Weight gradients add up over micro-batches in f32: read, and written wider than counted.
    p.backward.compute +=
        input + weight + device_.stream(columns * depth * 6) + cast(rows * columns);
    p.weights += columns * depth;
    p.model_flops += 3 * 2 * rows * columns * depth * tensor_;
  }
  /// Elementwise work of rows that all tensor ranks have (sequence parallel: a part of each),
  /// forward and backward, in elements read and written.
  void rows(double elements, double forward, double backward) {
    stream(elements / spread_ * element_, forward, backward);
  }
  /// The same of what is cut over the tensor ranks.
  void cut(double elements, double forward, double backward) {
    stream(elements / tensor_ * element_, forward, backward);
  }
  /// The sum over tensor ranks behind a row-parallel product and its adjoint before a
  /// column-parallel one (Korthikanti et al. 2022, section 4.2.2).
  void sum_of(double elements) {
    if (s_.layout.tensor == 1) return;
    const Group group{s_.layout.tensor, 1};
    const auto& cluster = device_.cluster();
    const double bytes = elements * static_cast<double>(execution_.activation_bytes);
    const double half = s_.sequence_parallel() ? all_gather_seconds(cluster, group, bytes)
                                               : all_reduce_seconds(cluster, group, bytes) / 2;
    passes_.forward.wire += 2 * half * (1 - execution_.forward_overlap);
    // Backward: the sum of input gradients lies beside the weight gradient. With sequence parallel
    // gradients are gathered before the row-parallel product, which waits, and the input again
    // beside a product.
    passes_.backward.wire += 2 * half * (1 - execution_.backward_overlap);
    if (s_.sequence_parallel()) passes_.backward.wire += half * (1 - execution_.forward_overlap);
  }
  void attention(const AttentionSpec& a, double queries, double keys, bool again) {
    const double heads = static_cast<double>(a.heads) / tensor_;
    const double samples = static_cast<double>(s_.micro_batch);
    const auto size = static_cast<double>(a.head_dim);
    passes_.model_flops += 3 * 4 * samples * queries * keys * size * static_cast<double>(a.heads);
    if (!a.materialised) {
      const double flops = 4 * samples * heads * size * pairs_of(a, queries, keys);
      passes_.forward.compute += device_.attention(flops, keys, false);
      passes_.backward.compute += device_.attention(2.5 * flops, keys, true);
      return;
    }
    const double count = samples * heads, scores = count * queries * keys;
    const double product = device_.product({queries, keys, size, count}) +
                           device_.product({queries, size, keys, count});
    // Softmax with scale and mask: read, write; dropout: read, write, a byte of mask.
    const double dropped = s_.model.dropout > 0 ? 1 : 0;
    const double softmax = device_.stream(scores * 2 * element_) +
                           dropped * device_.stream(scores * (2 * element_ + 1));
    passes_.forward.compute += product + softmax;
    passes_.backward.compute += 2 * product + device_.stream(scores * 3 * element_) +
                                dropped * device_.stream(scores * (2 * element_ + 1));
    if (again) passes_.again.compute += product + softmax;
  }
  void again(double seconds) { passes_.again.compute += seconds; }
  double stream_seconds(double elements, double times) const {
    return device_.stream(elements / tensor_ * element_ * times);
  }
  Passes& passes() { return passes_; }
  double tensor() const { return tensor_; }

 private:
  double cast(double elements) const {
    return fp8_ ? device_.stream(elements * execution_.fp8_bytes) : 0;
  }
  void stream(double bytes, double forward, double backward) {
    passes_.forward.compute += device_.stream(bytes * forward);
    passes_.backward.compute += device_.stream(bytes * backward);
  }
  const engine::Settings& s_;
  const DeviceTime& device_;
  const clusters::ExecutionSection& execution_;
  bool fp8_;
  double tensor_, spread_, element_;
  Passes passes_;
};

PartTimes::PartTimes(const engine::Settings& settings, const clusters::Cluster& cluster)
    : device_(cluster, product_type(settings), settings.fp8.has_value()) {}

namespace {

/// Rows of keys and values on a rank: heads that ranks share are whole on each.
double kv_rows(const AttentionSpec& a, double tensor) {
  return 2 * std::max(1.0, static_cast<double>(a.kv_heads) / tensor) *
         static_cast<double>(a.head_dim);
}

struct LayerRows {
  double queries;  // tokens of a sample in this stack
  double keys;     // of the other, for cross attention
};

LayerRows rows_of(const engine::Settings& s, int64_t layer) {
  const auto read = static_cast<double>(s.sequence_length());
  if (!s.model.is_encoder_decoder() || s.model.is_encoder_layer(layer)) return {read, read};
  return {static_cast<double>(s.decoder_length), read};
}

int num_norms(const LayerSpec& l) {
  int norms = l.norm_place == layers::NormPlace::both ? 4 : 2;
  if (l.norm_place == layers::NormPlace::pre && !l.attention_norm) --norms;
  return l.cross ? norms + 1 : norms;
}

}  // namespace

Passes PartTimes::layer(const engine::Settings& s, int64_t index, Recompute mode) const {
  const LayerSpec& l = s.model.layer(index);
  const auto h = static_cast<double>(s.model.hidden);
  const LayerRows length = rows_of(s, index);
  const double tokens = length.queries * static_cast<double>(s.micro_batch);
  Builder b(s, device_, s.is_fp8(index));
  const double t = b.tensor(), stream = tokens * h;
  const bool dropout = s.model.dropout > 0;
  const bool selective = mode == Recompute::selective;
  // Norms: read and written; backward reads two, writes one and adds to it. (A rank's rows.)
  const int norms = num_norms(l);
  for (int i = 0; i < norms; ++i) b.rows(stream, 2, 4);
  const auto self_or_cross = [&](const AttentionSpec& a, double keys, bool cross) {
    const double query = static_cast<double>(a.query_width()) / t;
    if (cross) {
      b.linear(tokens, query, h);
      b.linear(keys * static_cast<double>(s.micro_batch), kv_rows(a, t), h);
    } else {
      b.linear(tokens, query + kv_rows(a, t), h);
    }
    b.attention(a, length.queries, keys, selective);
    b.linear(tokens, h, query);
    // Bias of queries, keys and values, or their turn, and their order.
    b.cut(tokens * static_cast<double>(a.qkv_width()), 2, 2);
    // Bias, dropout and residual: x, residual, result, and a byte of mask.
    b.rows(stream, dropout ? 3.5 : 3, dropout ? 2.5 : 2);
  };
  self_or_cross(l.attention, length.queries, false);
  if (l.cross) self_or_cross(*l.cross, length.keys, true);
  const auto up = static_cast<double>(l.mlp.up_width()), ffn = static_cast<double>(l.mlp.ffn);
  b.linear(tokens, up / t, h);
  b.linear(tokens, h, ffn / t);
  b.cut(tokens, up + ffn, 2 * up + ffn);
  // Gradients of biases read what the products read.
  if (l.mlp.bias) b.cut(tokens, 0, up);
  if (l.attention.qkv_bias) b.cut(tokens, 0, static_cast<double>(l.attention.qkv_width()));
  b.rows(stream, dropout ? 3.5 : 3, dropout ? 2.5 : 2);
  const int sums = (l.parallel ? 1 : 2) + (l.cross ? 1 : 0);
  for (int i = 0; i < sums; ++i) b.sum_of(stream);
  Passes passes = b.passes();
  passes.weights += norms * 2 * h;
  if (mode == Recompute::full) {
    passes.again = passes.forward;
  } else if (selective && !l.attention.materialised) {
    // What streaming attention has not stored anyway: norms and the activation's output.
    b.again(2 * b.stream_seconds(stream, 2) + b.stream_seconds(tokens, up + ffn));
    passes.again = b.passes().again;
  }
  return passes;
}

Passes PartTimes::embedding(const engine::Settings& s) const {
  Builder b(s, device_, false);
  const double tokens =
      static_cast<double>(s.sequence_length()) * static_cast<double>(s.micro_batch);
  const double stream = tokens * static_cast<double>(s.model.hidden);
  b.rows(stream, 3, 3);
  Passes passes = b.passes();
  if (s.layout.tensor > 1) {
    passes.forward.wire += all_reduce_seconds(
        device_.cluster(), {s.layout.tensor, 1},
        stream * static_cast<double>(device_.cluster().execution.activation_bytes));
  }
  passes.weights += static_cast<double>(s.model.padded_vocab(s.split.tensor_shards)) / b.tensor() *
                    static_cast<double>(s.model.table_width());
  if (s.model.embedding.position == layers::PositionKind::learned)
    passes.weights += static_cast<double>(s.model.context * s.model.table_width());
  return passes;
}

Passes PartTimes::head(const engine::Settings& s) const {
  Builder b(s, device_, false);
  const auto h = static_cast<double>(s.model.hidden);
  double length = static_cast<double>(s.loss_length());
  if (s.predicted_per_sample > 0)
    length = std::min(length, static_cast<double>(s.predicted_per_sample));
  const double tokens = length * static_cast<double>(s.micro_batch);
  b.rows(tokens * h, 2, 4);
  if (s.model.head.kind == layers::HeadKind::language_model ||
      s.model.head.kind == layers::HeadKind::pretraining) {
    const double vocab =
        static_cast<double>(s.model.padded_vocab(s.split.tensor_shards)) / b.tensor();
    b.linear(tokens, vocab, h);
    // Logits become f32, exponentials are summed, divided; backward writes them once more.
    const DeviceTime& d = device_;
    b.passes().forward.compute += d.stream(tokens * vocab * 14);
    b.passes().backward.compute += d.stream(tokens * vocab * 10);
    if (s.layout.tensor > 1) {
      const auto& cluster = d.cluster();
      b.passes().backward.wire +=
          all_reduce_seconds(cluster, {s.layout.tensor, 1},
                             tokens * h * static_cast<double>(cluster.execution.activation_bytes)) *
          (1 - cluster.execution.backward_overlap);
    }
  }
  Passes passes = b.passes();
  if (s.model.head.tied) passes.weights = 0;  // the embedding's, where both are on one stage
  return passes;
}

}  // namespace megalith::costs

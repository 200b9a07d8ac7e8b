// SPDX-License-Identifier: Apache-2.0
// Shapes of attention for tests and benches, and the tensors of one call. For tests and benches
// only.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/elementary/kernel_testing.h"

namespace megalith::kernels {

struct AttentionCase {
  std::string name;
  std::vector<int32_t> lengths;
  int64_t num_heads = 1;
  int64_t num_kv_heads = 1;
  int64_t head_size = 64;
  bool causal = true;
  float dropout = 0;
  int64_t window_left = -1;
  int64_t window_right = -1;
  float softcap = 0;
  std::vector<int32_t> key_lengths = {};  // cross attention, if there are any
  int64_t kv_partials = 1;
  RelativeBuckets buckets = {};  // of biases, if there are any
};

inline AttentionCase biased(AttentionCase shape, const RelativeBuckets& buckets) {
  shape.buckets = buckets;
  return shape;
}

/// Primes, ones, empty sequences, block edges, odd head sizes, grouped heads.
inline std::vector<AttentionCase> attention_cases() {
  return {
      {"one_token", {1}, 1, 1, 64},
      {"no_tokens", {}, 2, 1, 16},
      {"block_edges", {63, 64, 65, 128}, 2, 2, 64},
      {"primes", {1, 0, 97, 31}, 3, 1, 37},
      {"bidirectional", {67, 1, 130}, 4, 2, 32, false},
      {"grouped", {150, 5}, 6, 2, 48},
      {"long_rows", {211}, 1, 1, 128},
      {"head_of_one", {70}, 2, 2, 1},
      {"heads_of_5", {70, 9}, 3, 1, 5},
      {"heads_of_12", {66, 40}, 9, 3, 12, false},
      {"heads_of_80", {100}, 5, 1, 80},
      {"heads_of_96", {65}, 8, 1, 96},
      {"heads_of_112", {70, 3}, 3, 3, 112},
      {"heads_of_256", {130}, 2, 1, 256},
      {"dropout", {66, 129}, 4, 2, 24, true, 0.25f},
      {"dropout_bidirectional", {77}, 2, 2, 64, false, 0.5f},
      {"window", {200, 3, 131}, 2, 1, 32, true, 0, 69},
      // One thread's scratch serves several sequences.
      {"windows_in_turn", {200, 200, 200, 200}, 1, 1, 16, true, 0, 30},
      {"window_of_itself", {70}, 2, 2, 20, true, 0, 0},
      {"window_left", {140}, 1, 1, 16, false, 0, 13},
      {"window_both_sides", {190, 64}, 3, 1, 24, false, 0, 37, 80},
      {"window_right", {150}, 2, 1, 8, false, 0, -1, 5},
      {"window_dropout", {170}, 2, 1, 40, true, 0.2f, 64},
      {"window_beyond", {90}, 1, 1, 16, false, 0, 500, 500},
      {"softcap", {130, 20}, 4, 2, 32, true, 0, -1, -1, 2.0f},
      {"softcap_window_dropout", {170}, 2, 2, 20, true, 0.2f, 70, -1, 0.5f},
      {"cross", {70, 1, 130}, 4, 2, 32, false, 0, -1, -1, 0, {150, 67, 3}},
      {"cross_without_keys", {70, 20, 0}, 2, 1, 20, false, 0, -1, -1, 0, {0, 65, 40}},
      {"cross_dropout", {5, 90}, 2, 2, 16, false, 0.3f, -1, -1, 0, {77, 12}},
      {"cross_softcap", {66}, 3, 1, 24, false, 0, -1, -1, 2.0f, {131}},
      {"partials", {70, 130}, 6, 1, 24, true, 0, -1, -1, 0, {}, 3},
      {"partials_of_one_head", {150}, 8, 2, 16, false, 0.2f, 40, 9, 0, {}, 4},
      {"partials_cross", {30, 66}, 5, 1, 12, false, 0, -1, -1, 0, {77, 0}, 5},
      {"softcap_bidirectional", {67}, 1, 1, 16, false, 0, -1, -1, 50.0f},
      biased({"bias", {70, 1, 0, 130}, 4, 2, 32}, {8, 20, false}),
      biased({"bias_bidirectional", {67, 300}, 2, 1, 24, false}, {32, 128, true}),
      biased({"bias_beyond", {150}, 3, 3, 5, false}, {4, 2, true}),
      biased({"bias_window_dropout", {170}, 4, 2, 20, true, 0.2f, 70}, {32, 500, false}),
      biased({"bias_partials", {70, 130}, 6, 1, 24, false, 0.1f, 50, 80, 0, {}, 3}, {16, 40, true}),
  };
}

/// Inputs, outputs and gradients of one case: q, k, v in one fused projection with a gap between
/// its rows and a misaligned start, the rest plain.
struct AttentionData {
  using Tensor = testing::TestTensor;
  AttentionCase shape;
  DType dtype;
  std::vector<int32_t> cu_seqlens{0};
  std::vector<int32_t> cu_seqlens_keys;  // none but in cross attention
  int64_t num_rows = 0;
  Tensor qkv, y, dy, dqkv;
  Tensor kv, dkv;  // of cross attention: what q, k, v would be for its keys
  Tensor lse, probabilities, sample, position;
  Tensor table, dtable;  // of biases
  bool materialised = false;
  float scaled_by = NAN;  // the usual scale

  AttentionData(const AttentionCase& c, DType type, uint64_t seed = 1)
      : shape(c),
        dtype(type),
        cu_seqlens(offsets(c.lengths)),
        cu_seqlens_keys(c.key_lengths.empty() ? std::vector<int32_t>() : offsets(c.key_lengths)),
        num_rows(cu_seqlens.back()),
        qkv(type, Shape{num_rows, (c.num_heads + 2 * c.num_kv_heads) * c.head_size}, 5, 3),
        y(type, Shape{num_rows, c.num_heads * c.head_size}, 1, 1),
        dy(type, Shape{num_rows, c.num_heads * c.head_size}, 0, 2),
        dqkv(type, Shape{num_rows, (c.num_heads + 2 * c.num_kv_heads) * c.head_size}, 3, 1),
        kv(type, Shape{num_key_rows(), qkv.columns()}, 2, 1),
        dkv(type, kv.shape(), 4, 3),
        lse(type == DType::f64 ? DType::f64 : DType::f32, Shape{c.num_heads, num_rows}, 2),
        probabilities(type, Shape{attention_probabilities_elements(cu_seqlens, c.num_heads,
                                                                   cu_seqlens_keys)}),
        sample(DType::i64, Shape{static_cast<int64_t>(c.lengths.size()) + 1}),
        position(DType::i64, Shape{static_cast<int64_t>(c.lengths.size()) + 1}),
        table(type, Shape{c.buckets.count, c.num_heads}, 3, 1),
        dtable(lse.dtype(), table.shape(), 2, 1) {
    qkv.fill_normal(seed);
    dy.fill_normal(seed + 1);
    kv.fill_normal(seed + 2);
    table.fill_normal(seed + 3);
    dtable.fill_normal(seed + 4);  // gradients are added to it
    sample.fill([](int64_t s) { return static_cast<double>(1000 + 7 * s); });
    position.fill([](int64_t s) { return static_cast<double>(3 * s); });
  }

  static std::vector<int32_t> offsets(const std::vector<int32_t>& lengths) {
    std::vector<int32_t> cu{0};
    for (const int32_t length : lengths) cu.push_back(cu.back() + length);
    return cu;
  }
  int64_t num_key_rows() const { return cu_seqlens_keys.empty() ? 0 : cu_seqlens_keys.back(); }
  float scale() const {
    return std::isnan(scaled_by) ? 1.0f / std::sqrt(static_cast<float>(shape.head_size))
                                 : scaled_by;
  }
  AttentionDropout dropout() const {
    return {.p = shape.dropout,
            .key = 99,
            .sample_S = sample.view(),
            .position_S = position.view(),
            .head_begin = 2};
  }
  AttentionBias bias() const {
    return shape.buckets.count == 0 ? AttentionBias() : AttentionBias{table.view(), shape.buckets};
  }
  AttentionSequences sequences() const {
    return {.cu_seqlens = cu_seqlens,
            .cu_seqlens_device = {},
            .causal = shape.causal,
            .window_left = shape.window_left,
            .window_right = shape.window_right,
            .cu_seqlens_keys = cu_seqlens_keys};
  }
  AttentionForward forward_arguments() {
    const auto [n, k, d] = sizes();
    const ConstView in = qkv.view(), key_in = cu_seqlens_keys.empty() ? in : kv.view();
    return {.sequences = sequences(),
            .scale = scale(),
            .q_TND = queries(in, n, k, d),
            .k_TKD = keys(key_in, n, k, d),
            .v_TKD = values(key_in, n, k, d),
            .y_TND = heads(y.view(), n, d),
            .lse_NT = lse.view(),
            .probabilities = materialised ? probabilities.view() : View(),
            .dropout = dropout(),
            .softcap = shape.softcap,
            .bias = bias()};
  }
  AttentionBackward backward_arguments() {
    const auto [n, k, d] = sizes();
    const ConstView in = qkv.view(), key_in = cu_seqlens_keys.empty() ? in : kv.view();
    const View out = dqkv.view(), key_out = cu_seqlens_keys.empty() ? out : dkv.view();
    return {.sequences = sequences(),
            .scale = scale(),
            .q_TND = queries(in, n, k, d),
            .k_TKD = keys(key_in, n, k, d),
            .v_TKD = values(key_in, n, k, d),
            .y_TND = heads(ConstView(y.view()), n, d),
            .dy_TND = heads(ConstView(dy.view()), n, d),
            .lse_NT = lse.view(),
            .probabilities = materialised ? ConstView(probabilities.view()) : ConstView(),
            .dq_TND = queries(out, n, k, d),
            .dk_TKD = keys(key_out, n, k, d),
            .dv_TKD = values(key_out, n, k, d),
            .dropout = dropout(),
            .softcap = shape.softcap,
            .kv_partials = shape.kv_partials,
            .bias = bias(),
            .dtable_BN = shape.buckets.count == 0 ? View() : dtable.view()};
  }
  void forward(device::Device& device, std::string_view only = {},
               Numerics numerics = Numerics::exact) {
    Exec exec(device, numerics);
    exec.only = only;
    attention_forward(exec, forward_arguments());
  }
  void backward(device::Device& device, std::string_view only = {},
                Numerics numerics = Numerics::exact) {
    Exec exec(device, numerics);
    exec.only = only;
    attention_backward(exec, backward_arguments());
  }

 private:
  struct Sizes {
    int64_t n, k, d;
  };
  Sizes sizes() const { return {shape.num_heads, shape.num_kv_heads, shape.head_size}; }
};

}  // namespace megalith::kernels

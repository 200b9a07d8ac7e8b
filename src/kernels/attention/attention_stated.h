// SPDX-License-Identifier: Apache-2.0
// The arithmetic of attention over bf16 heads as attention.h states it, one element at a time with
// the scalar bf16 chain. For tests only.
#pragma once

#include <array>
#include <functional>

#include "kernels/attention/attention_cases.h"
#include "kernels/elementwise/dropout.h"
#include "kernels/reduction/tree_sum.h"
#include "math/bf16_chain.h"
#include "math/elementary.h"

namespace megalith::kernels {

inline float bias_of(const AttentionData& data, int64_t head, int64_t distance) {
  return static_cast<float>(data.table.at(data.shape.buckets.of(distance), head));
}

/// Adds to the gradient of the biases what a sequence of `length` positions has: g(h, i, j), +0
/// where i does not see j, in the order that attention.h states.
inline void add_table_gradient(AttentionData& data, int64_t length, int64_t block,
                               const std::function<float(int64_t, int64_t, int64_t)>& g) {
  const RelativeBuckets& buckets = data.shape.buckets;
  if (buckets.count == 0) return;
  for (int64_t first = 0; first < length; first += block) {
    const int64_t end = std::min(first + block, length);
    for (int64_t h = 0; h < data.shape.num_heads; ++h) {
      std::vector<float> sums(static_cast<size_t>(buckets.count));
      for (int64_t distance = first - length + 1; distance < end; ++distance) {
        float diagonal = 0;
        for (int64_t j = std::max(first, distance); j < std::min(end, length + distance); ++j)
          diagonal += g(h, j - distance, j);
        sums[static_cast<size_t>(buckets.of(distance))] += diagonal;
      }
      for (int64_t b = 0; b < buckets.count; ++b) {
        const float before = static_cast<float>(data.dtable.at(b, h));
        data.dtable.set(b, h, static_cast<double>(before + sums[static_cast<size_t>(b)]));
      }
    }
  }
}

/// y, lse and the gradients of `data` (bf16, finite): what attention_forward and attention_backward
/// write.
class StatedAttention {
 public:
  explicit StatedAttention(const AttentionData& data) : d_(data), result_(data) {}

  AttentionData run() {
    for (size_t s = 0; s + 1 < d_.cu_seqlens.size(); ++s) {
      sequence_ = static_cast<int64_t>(s);
      for (int64_t h = 0; h < d_.shape.num_heads; ++h) forward_head(h);
      for (int64_t h = 0; h < d_.shape.num_heads; ++h) query_gradients(h);
      for (int64_t g = 0; g < d_.shape.num_kv_heads; ++g) key_gradients(g);
      add_table_gradient(result_, keys(), kKeys, [&](int64_t h, int64_t i, int64_t j) {
        return gradient(h, i, j).unscaled;
      });
    }
    return result_;
  }

 private:
  using Element = std::function<float(int64_t)>;
  static constexpr int64_t kKeys = 128;  // of a block: stated, not taken from what is tested

  static float rounded(float x) { return to_f32(to_bf16(without_denormal(x))); }
  static float read(const ConstHeadsView& x, int64_t t, int64_t h, int64_t d) {
    return to_f32(reinterpret_cast<const bf16_t*>(x.at(t, h))[d]);
  }
  static void write(const HeadsView& x, int64_t t, int64_t h, int64_t d, float value) {
    reinterpret_cast<bf16_t*>(x.at(t, h))[d] = to_bf16(value + 0.0f);
  }
  /// The chain over elements [0, n), the last pair filled up with zeros.
  static float chain(int64_t n, float sum, const Element& a, const Element& b) {
    for (int64_t i = 0; i < n; i += 2) {
      const bool odd = i + 1 < n;
      sum = bf16_chain_step(a(i), b(i), odd ? a(i + 1) : 0, odd ? b(i + 1) : 0, sum);
    }
    return sum;
  }
  static float tree16(std::array<float, 16> lanes) {
    for (size_t half = 8; half > 0; half /= 2) {
      for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    return lanes[0];
  }

  std::span<const int32_t> key_offsets() const {
    return d_.cu_seqlens_keys.empty() ? d_.cu_seqlens : d_.cu_seqlens_keys;
  }
  int64_t query_row() const { return d_.cu_seqlens[static_cast<size_t>(sequence_)]; }
  int64_t key_row() const { return key_offsets()[static_cast<size_t>(sequence_)]; }
  int64_t queries() const {
    return d_.cu_seqlens[static_cast<size_t>(sequence_) + 1] - query_row();
  }
  int64_t keys() const { return key_offsets()[static_cast<size_t>(sequence_) + 1] - key_row(); }
  int64_t group(int64_t h) const { return h / (d_.shape.num_heads / d_.shape.num_kv_heads); }
  bool sees(int64_t i, int64_t j) const {
    const AttentionCase& c = d_.shape;
    return (c.window_left < 0 || j >= i - c.window_left) &&
           (c.causal ? j <= i : c.window_right < 0 || j <= i + c.window_right);
  }
  /// What dropout multiplies a probability by.
  float kept(int64_t h, int64_t i, int64_t j) const {
    if (d_.shape.dropout == 0) return 1;
    const auto at = static_cast<uint64_t>(d_.position.at(sequence_));
    const uint64_t query = at + static_cast<uint64_t>(i);
    const uint64_t key = (cross() ? 0 : at) + static_cast<uint64_t>(j);
    const PhiloxBlock words =
        philox(99, query << 32 | key / 4,
               static_cast<uint64_t>(d_.sample.at(sequence_)) << 16 | static_cast<uint64_t>(h + 2));
    return words[key % 4] >= dropout_threshold(d_.shape.dropout) ? dropout_scale(d_.shape.dropout)
                                                                 : 0;
  }
  bool cross() const { return !d_.cu_seqlens_keys.empty(); }

  /// The score of a pair and, for a softcap, its tangent.
  float score(int64_t h, int64_t i, int64_t j, float* tangent = nullptr) const {
    const float x = chain(
        d_.shape.head_size, 0,
        [&](int64_t d) { return read(forward_.q_TND, query_row() + i, h, d); },
        [&](int64_t d) { return read(forward_.k_TKD, key_row() + j, group(h), d); });
    const float cap = d_.shape.softcap;
    if (d_.shape.buckets.count > 0) return d_.scale() * x + bias_of(d_, h, j - i);
    if (cap == 0) return d_.scale() * x;
    const float t = elementary::tanh(x * (d_.scale() / cap));
    if (tangent != nullptr) *tangent = t;
    return t * cap;
  }

  void forward_head(int64_t h) {
    const int64_t size = d_.shape.head_size;
    for (int64_t i = 0; i < queries(); ++i) {
      float m = -INFINITY, l = keys() == 0 ? 1.0f : 0.0f;
      std::vector<float> acc(static_cast<size_t>(size));
      for (int64_t first = 0; first < keys(); first += kKeys) {
        forward_block(h, i, first, std::min(kKeys, keys() - first), m, l, acc);
      }
      for (int64_t d = 0; d < size; ++d) {
        write(out_.y_TND, query_row() + i, h, d, acc[static_cast<size_t>(d)] / l);
      }
      result_.lse.set(h, query_row() + i, static_cast<double>(m + elementary::log(l)));
    }
  }
  void forward_block(int64_t h, int64_t i, int64_t first, int64_t count, float& m, float& l,
                     std::vector<float>& acc) {
    std::vector<float> p(static_cast<size_t>(count));
    float now = m;
    for (int64_t j = 0; j < count; ++j) {
      if (!sees(i, first + j)) continue;
      p[static_cast<size_t>(j)] = score(h, i, first + j);
      now = std::max(now, p[static_cast<size_t>(j)]);
    }
    const float a = elementary::exp(m - now);
    std::array<float, 16> lanes{};
    for (int64_t j = 0; j < count; ++j) {
      float& own = p[static_cast<size_t>(j)];
      own = sees(i, first + j) ? elementary::exp(own - now) : 0;
      lanes[static_cast<size_t>(j % 16)] += own;
      own = rounded(own * kept(h, i, first + j));
    }
    if (now == -INFINITY) return;  // nothing seen yet
    l = l * a + tree16(lanes);
    m = now;
    for (int64_t d = 0; d < d_.shape.head_size; ++d) {
      float& sum = acc[static_cast<size_t>(d)];
      sum = chain(
          count, sum * a, [&](int64_t j) { return p[static_cast<size_t>(j)]; },
          [&](int64_t j) { return read(forward_.v_TKD, key_row() + first + j, group(h), d); });
    }
  }

  float delta(int64_t h, int64_t i) const {
    std::array<float, 16> lanes{};
    for (int64_t d = 0; d < d_.shape.head_size; ++d) {
      float& lane = lanes[static_cast<size_t>(d % 16)];
      lane = std::fma(read(backward_.dy_TND, query_row() + i, h, d),
                      read(ConstHeadsView(out_.y_TND), query_row() + i, h, d), lane);
    }
    return tree16(lanes);
  }
  struct Gradient {
    float p = 0, ds = 0;  // rounded
    float unscaled = 0;   // ds, neither scaled nor rounded
  };
  Gradient gradient(int64_t h, int64_t i, int64_t j) const {
    if (!sees(i, j)) return {};
    float t = 0;
    const float s = score(h, i, j, &t), keep = kept(h, i, j);
    const float p = elementary::exp(s - static_cast<float>(result_.lse.at(h, query_row() + i)));
    const float dp = chain(
        d_.shape.head_size, 0,
        [&](int64_t d) { return read(backward_.dy_TND, query_row() + i, h, d); },
        [&](int64_t d) { return read(forward_.v_TKD, key_row() + j, group(h), d); });
    const float slope = d_.shape.softcap == 0 ? d_.scale() : d_.scale() * std::fma(-t, t, 1.0f);
    const float unscaled = p * ((keep == 0 ? 0 : dp * keep) - delta(h, i));
    return {rounded(p * keep), rounded(unscaled * slope), unscaled};
  }
  void query_gradients(int64_t h) {
    std::vector<float> ds(static_cast<size_t>(keys()));
    for (int64_t i = 0; i < queries(); ++i) {
      for (int64_t j = 0; j < keys(); ++j) ds[static_cast<size_t>(j)] = gradient(h, i, j).ds;
      for (int64_t d = 0; d < d_.shape.head_size; ++d) {
        const float sum = chain(
            keys(), 0, [&](int64_t j) { return ds[static_cast<size_t>(j)]; },
            [&](int64_t j) { return read(forward_.k_TKD, key_row() + j, group(h), d); });
        write(backward_.dq_TND, query_row() + i, h, d, sum);
      }
    }
  }
  void key_gradients(int64_t g) {
    const int64_t q_per_kv = d_.shape.num_heads / d_.shape.num_kv_heads;
    for (int64_t j = 0; j < keys(); ++j) {
      std::vector<Gradient> of;  // head after head
      for (int64_t h = g * q_per_kv; h < (g + 1) * q_per_kv; ++h) {
        for (int64_t i = 0; i < queries(); ++i) of.push_back(gradient(h, i, j));
      }
      for (int64_t d = 0; d < d_.shape.head_size; ++d) {
        const auto sum = [&](const ConstHeadsView& x, float Gradient::*factor) {
          return over_runs(0, d_.shape.kv_partials, [&](int64_t head, float before) {
            return chain(
                queries(), before,
                [&](int64_t i) { return of[static_cast<size_t>(head * queries() + i)].*factor; },
                [&](int64_t i) { return read(x, query_row() + i, g * q_per_kv + head, d); });
          });
        };
        write(backward_.dk_TKD, key_row() + j, g, d, sum(forward_.q_TND, &Gradient::ds));
        write(backward_.dv_TKD, key_row() + j, g, d, sum(backward_.dy_TND, &Gradient::p));
      }
    }
  }
  /// The tree over runs [lo, hi) of chains over their heads.
  float over_runs(int64_t lo, int64_t hi,
                  const std::function<float(int64_t, float)>& continued) const {
    if (hi - lo > 1) {
      const int64_t middle = tree_middle(lo, hi);
      return over_runs(lo, middle, continued) + over_runs(middle, hi, continued);
    }
    const int64_t run = d_.shape.num_heads / d_.shape.num_kv_heads / d_.shape.kv_partials;
    float sum = 0;
    for (int64_t head = lo * run; head < hi * run; ++head) sum = continued(head, sum);
    return sum;
  }

  AttentionData d_, result_;
  AttentionForward forward_ = d_.forward_arguments();  // inputs
  AttentionForward out_ = result_.forward_arguments();
  AttentionBackward backward_ = result_.backward_arguments();  // dy and gradients
  int64_t sequence_ = 0;
};

}  // namespace megalith::kernels

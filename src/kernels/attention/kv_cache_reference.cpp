// SPDX-License-Identifier: Apache-2.0
// The specification of the KV cache: plain loops in double over any dtype.
#include <cmath>
#include <limits>

#include "kernels/attention/attention_bias.h"
#include "kernels/attention/kv_cache_layout.h"
#include "kernels/elementary/reference_access.h"

namespace megalith::kernels {

void kv_cache_append_reference(Exec&, const KvCacheAppend& a) {
  const auto read = [](const ConstHeadsView& x, int64_t t, int64_t h, int64_t d) {
    return read_double(ConstView(x.at(t, h), x.dtype, Shape{1, x.head_size}), 0, d);
  };
  for (int64_t t = 0; t < a.k_TKD.num_rows; ++t) {
    const int64_t s = sequence_of_row(a.sequences, t);
    const int64_t position = a.sequences.past[static_cast<size_t>(s)] + t -
                             a.sequences.cu_seqlens[static_cast<size_t>(s)];
    for (int64_t h = 0; h < a.shape.num_kv_heads; ++h) {
      const int64_t block = kv_block_offset(a.shape, kv_block(a.sequences, s, position), h);
      for (int64_t d = 0; d < padded_head_size(a.shape.head_size); ++d) {
        const bool real = d < a.shape.head_size;
        if (d < kv_key_elements(a.shape)) {
          write_double(a.cache, 0, block + kv_key_offset(a.shape, position, d),
                       real ? read(a.k_TKD, t, h, d) : 0.0);
        }
        write_double(a.cache, 0, block + kv_value_offset(a.shape, position, d),
                     real ? read(a.v_TKD, t, h, d) : 0.0);
      }
    }
  }
}

void attention_cached_reference(Exec&, const AttentionCached& a) {
  const int64_t size = a.shape.head_size;
  const int64_t q_per_kv = a.q_TND.num_heads / a.shape.num_kv_heads;
  for (int64_t t = 0; t < a.q_TND.num_rows; ++t) {
    const int64_t s = sequence_of_row(a.sequences, t);
    const int64_t last = a.sequences.past[static_cast<size_t>(s)] + t -
                         a.sequences.cu_seqlens[static_cast<size_t>(s)];
    for (int64_t h = 0; h < a.q_TND.num_heads; ++h) {
      const ConstView q(a.q_TND.at(t, h), a.q_TND.dtype, Shape{1, size});
      const View y(a.y_TND.at(t, h), a.y_TND.dtype, Shape{1, size});
      const auto cached = [&](int64_t j, int64_t offset) {
        const int64_t block = kv_block(a.sequences, s, j);
        return read_double(a.cache, 0, kv_block_offset(a.shape, block, h / q_per_kv) + offset);
      };
      const Range seen = sight_of(a, s).keys_of(last);
      std::vector<double> p(static_cast<size_t>(seen.end));
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t j = seen.begin; j < seen.end; ++j) {
        double score = 0;
        for (int64_t d = 0; d < size; ++d) {
          score += read_double(q, 0, d) * cached(j, kv_key_offset(a.shape, j, d));
        }
        score *= a.scale;
        if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
        score += bias_of(a.bias, h, j - last);
        p[static_cast<size_t>(j)] = score;
        max = std::max(max, score);
      }
      for (int64_t j = seen.begin; j < seen.end; ++j) {
        sum += p[static_cast<size_t>(j)] = std::exp(p[static_cast<size_t>(j)] - max);
      }
      for (int64_t d = 0; d < size; ++d) {
        double value = 0;
        for (int64_t j = seen.begin; j < seen.end; ++j) {
          value += p[static_cast<size_t>(j)] * cached(j, kv_value_offset(a.shape, j, d));
        }
        write_double(y, 0, d, value / sum);
      }
    }
  }
}

}  // namespace megalith::kernels

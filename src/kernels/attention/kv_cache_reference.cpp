// SPDX-License-Identifier: Apache-2.0
// The specification of the KV cache: plain loops in double over any dtype.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/attention/attention_bias.h"
#include "kernels/attention/kv_cache_layout.h"
#include "kernels/elementary/reference_access.h"

namespace megalith::kernels {
namespace {

double read(const ConstHeadsView& x, int64_t t, int64_t h, int64_t d) {
  return read_double(ConstView(x.at(t, h), x.dtype, Shape{1, x.head_size}), 0, d);
}

/// Of row t and head h, channel by channel.
void append_codes(const KvCacheAppend& a, int64_t t, int64_t h, int64_t position, int8_t* block) {
  const int64_t size = a.shape.head_size;
  const auto put = [&](const ConstHeadsView& x, auto code_at, auto scale_at) {
    for (int64_t first = 0; first < size; first += kCodedChannels) {
      std::vector<float> numbers;
      for (int64_t d = first; d < std::min(first + kCodedChannels, size); ++d)
        numbers.push_back(static_cast<float>(read(x, t, h, d)));
      std::vector<int8_t> codes(numbers.size());
      const f16_t scale = code_channels(numbers, codes.data());
      for (size_t i = 0; i < codes.size(); ++i)
        block[code_at(a.shape, position, first + static_cast<int64_t>(i))] = codes[i];
      std::memcpy(block + scale_at(a.shape, position, first), &scale, sizeof scale);
    }
  };
  put(a.k_TKD, kv_key_offset, kv_key_scale);
  put(a.v_TKD, kv_value_offset, kv_value_scale);
  for (int64_t d = size; d < padded_head_size(size); ++d)
    block[kv_value_offset(a.shape, position, d)] = 0;
}

}  // namespace

void kv_cache_append_reference(Exec&, const KvCacheAppend& a) {
  for (int64_t t = 0; t < a.k_TKD.num_rows; ++t) {
    const int64_t s = sequence_of_row(a.sequences, t);
    const int64_t position = a.sequences.past[static_cast<size_t>(s)] + t -
                             a.sequences.cu_seqlens[static_cast<size_t>(s)];
    for (int64_t h = 0; h < a.shape.num_kv_heads; ++h) {
      const int64_t block = kv_block_offset(a.shape, kv_block(a.sequences, s, position), h);
      if (a.shape.dtype == DType::i8) {
        append_codes(a, t, h, position, a.cache.as<int8_t>() + block);
        continue;
      }
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
      const auto cached = [&](int64_t j, int64_t offset, int64_t scale_at) {
        const int64_t block = kv_block(a.sequences, s, j);
        const int64_t begin = kv_block_offset(a.shape, block, h / q_per_kv);
        const double stored = read_double(a.cache, 0, begin + offset);
        if (a.shape.dtype != DType::i8) return stored;
        f16_t scale;
        std::memcpy(&scale, a.cache.data() + begin + scale_at, sizeof scale);
        return stored * static_cast<double>(to_f32(scale));
      };
      const Range seen = sight_of(a, s).keys_of(last);
      std::vector<double> p(static_cast<size_t>(seen.end));
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t j = seen.begin; j < seen.end; ++j) {
        double score = 0;
        for (int64_t d = 0; d < size; ++d) {
          score += read_double(q, 0, d) *
                   cached(j, kv_key_offset(a.shape, j, d), kv_key_scale(a.shape, j, d));
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
          value += p[static_cast<size_t>(j)] *
                   cached(j, kv_value_offset(a.shape, j, d), kv_value_scale(a.shape, j, d));
        }
        write_double(y, 0, d, value / sum);
      }
    }
  }
}

}  // namespace megalith::kernels

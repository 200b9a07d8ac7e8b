// SPDX-License-Identifier: Apache-2.0
// The KV cache on the CPU. Attention over it takes the step of attention_rows-inl.h with the
// cache's own blocks as operands: nothing is packed, so one new token streams keys and values once.
// Blocks of another dtype than the heads' are widened first.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/kv_cache_cpu.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/attention/attention_rows-inl.h"
#include "kernels/attention/kv_cache_layout.h"
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/pairs-inl.h"

#ifndef MEGA_KV_CACHE_SCRATCH
#define MEGA_KV_CACHE_SCRATCH
namespace megalith::kernels {
namespace {

/// New tokens of one head in an item.
int64_t cached_item_rows(int64_t heads_per_group) {
  return std::max<int64_t>(24, 192 / heads_per_group / 24 * 24);
}

/// One thread's scratch, in floats.
struct CachedScratch {
  int64_t width;
  int64_t rows;
  CachedScratch(const AttentionCached& a)
      : width(padded_head_size(a.shape.head_size)),
        rows(a.q_TND.num_heads / a.shape.num_kv_heads *
             std::min(longest(a.sequences.cu_seqlens),
                      cached_item_rows(a.q_TND.num_heads / a.shape.num_kv_heads))) {}
  int64_t floats() const {
    return 2 * rows * width + 2 * round_up<int64_t>(rows, 16) + 2 * kKeyBlock * width;
  }
};

}  // namespace
}  // namespace megalith::kernels
#endif  // MEGA_KV_CACHE_SCRATCH

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {
namespace {

/// Rows `columns` long, of which two alternate.
HWY_INLINE void widen(const bf16_t* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; r += 2) {
    for (int64_t c = 0; c < columns; c += kFloatLanes) {
      const VecPair two = load_pairs(from + r * columns + 2 * c);
      store(two.first, to + r * columns + c);
      store(two.second, to + (r + 1) * columns + c);
    }
  }
}

/// `count` numbers, whole vectors.
HWY_INLINE void widen(const f16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kFloatLanes) store(load(from + i), to + i);
}

/// kFloatLanes codes as numbers.
HWY_INLINE FloatVec load_codes(const int8_t* from) {
  const hn::Rebind<int8_t, FloatTag> d8;
  const hn::Rebind<int32_t, FloatTag> d32;
  return hn::ConvertTo(FloatTag(), hn::PromoteTo(d32, hn::LoadU(d8, from)));
}
/// A block of codes: keys [D, 64] and values [64, width].
void widen_codes(const KvCacheShape& shape, const int8_t* block, int64_t width, float* keys_DJ,
                 float* values_JD) {
  const auto* bytes = reinterpret_cast<const std::byte*>(block);
  for (int64_t d = 0; d < shape.head_size; ++d) {
    for (int64_t j = 0; j < kKeyBlock; j += kFloatLanes) {
      const FloatVec scale =
          load(reinterpret_cast<const f16_t*>(bytes + kv_key_scale(shape, j, d)));
      store(hn::Mul(load_codes(block + d * kKeyBlock + j), scale), keys_DJ + d * kKeyBlock + j);
    }
  }
  const int8_t* const values = block + kv_values_offset(shape);
  for (int64_t j = 0; j < kKeyBlock; ++j) {
    for (int64_t d = 0; d < width; d += kFloatLanes) {
      f16_t scale;
      std::memcpy(&scale, bytes + kv_value_scale(shape, j, d), sizeof scale);
      const FloatVec wide = hn::Set(FloatTag(), to_f32(scale));
      store(hn::Mul(load_codes(values + j * width + d), wide), values_JD + j * width + d);
    }
  }
}

/// The block at `offset`, of another dtype than f32: keys [D, 64] and values [64, width].
void widen_block(const AttentionCached& a, int64_t offset, int64_t width, float* keys_DJ,
                 float* values_JD) {
  const KvCacheShape& shape = a.shape;
  if (shape.dtype == DType::i8)
    return widen_codes(shape, a.cache.as<int8_t>() + offset, width, keys_DJ, values_JD);
  if (shape.dtype == DType::f16) {
    const f16_t* block = a.cache.as<f16_t>() + offset;
    widen(block, shape.head_size * kKeyBlock, keys_DJ);
    return widen(block + kv_values_offset(shape), kKeyBlock * width, values_JD);
  }
  const bf16_t* block = a.cache.as<bf16_t>() + offset;
  widen(block, kv_key_elements(shape), kKeyBlock, keys_DJ);
  widen(block + kv_values_offset(shape), kKeyBlock, width, values_JD);
}

/// The state of the rows at the start of the scratch.
HWY_INLINE QueryRows cached_rows(const CachedScratch& layout, int64_t size, float* scratch) {
  float* sum = scratch + layout.rows * layout.width;
  float* max = sum + layout.rows * layout.width;
  return {scratch, sum, max, max + round_up<int64_t>(layout.rows, 16), size, layout.width};
}

}  // namespace

/// The item's rows are counted by their positions in the sequence.
void run_cached_item(const AttentionCached& a, const ScoreRule& rule, const CachedScratch& layout,
                     const AttentionItem& item, float* scratch) {
  const auto sequence = static_cast<size_t>(item.sequence);
  const int64_t row = a.sequences.cu_seqlens[sequence] - a.sequences.past[sequence];
  const int64_t num_queries = item.end - item.begin, size = a.shape.head_size;
  const int64_t q_per_kv = a.q_TND.num_heads / a.shape.num_kv_heads;
  const int64_t width = layout.width;
  const QueryRows rows = cached_rows(layout, size, scratch);
  float* keys_DJ = rows.norm + round_up<int64_t>(layout.rows, 16);
  float* values_JD = keys_DJ + kKeyBlock * width;
  const int64_t num_rows = q_per_kv * num_queries;
  const Sight sight = sight_of(a, item.sequence);
  const RowsPlace place{q_per_kv, num_queries, item.group * q_per_kv, item.begin, sight};
  for (int64_t h = 0; h < q_per_kv; ++h) {
    pack_rows(a.q_TND, row + item.begin, place.first_head + h, num_queries, width,
              rows.q + h * num_queries * width);
  }
  start_rows(rows, num_rows);
  const Range seen = sight.keys_of(Range{item.begin, item.end});
  const int64_t first_block = block_start(seen.begin), known = seen.end;
  const auto attend = [&](const float* keys, const float* values, int64_t first_key,
                          int64_t ahead) HWY_ATTR {
    attend_block(rows, place, first_key, std::min(kKeyBlock, known - first_key),
                 Right<float>{keys, kKeyBlock, ahead}, Right<float>{values, width, ahead}, rule,
                 SequenceDropout(), nullptr, 0);
  };
  const auto offset_of = [&](int64_t first_key, int64_t group) {
    return kv_block_offset(a.shape, kv_block(a.sequences, item.sequence, first_key), group);
  };
  // Where the next block begins hardware does not foresee. After the last one of one new token
  // comes the next head's first.
  const auto next_offset = [&](int64_t first_key) {
    if (first_key + kKeyBlock < known) return offset_of(first_key + kKeyBlock, item.group);
    if (item.group + 1 < a.shape.num_kv_heads) return offset_of(first_block, item.group + 1);
    return offset_of(first_key, item.group);
  };
  for (int64_t first_key = first_block; first_key < known; first_key += kKeyBlock) {
    const int64_t offset = offset_of(first_key, item.group);
    const int64_t ahead = next_offset(first_key) - offset;
    if (a.shape.dtype == DType::f32) {
      const float* keys = a.cache.as<float>() + offset;
      attend(keys, keys + kKeyBlock * size, first_key, ahead);
      continue;
    }
    widen_block(a, offset, width, keys_DJ, values_JD);
    attend(keys_DJ, values_JD, first_key, 0);
  }
  for (int64_t r = 0; r < num_rows; ++r) {
    finish_row(rows, r, a.y_TND, row + item.begin + r % num_queries,
               place.first_head + r / num_queries);
  }
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {
namespace {

template <typename To, typename From>
void append_head(const KvCacheShape& shape, const From* k, const From* v, int64_t position,
                 To* block) {
  const auto convert = [](From x) {
    if constexpr (std::is_same_v<To, float>) {
      return to_f32(x);
    } else if constexpr (std::is_same_v<To, f16_t>) {
      return to_f16(to_f32(x));
    } else {
      return to_bf16(to_f32(x));
    }
  };
  const int64_t size = shape.head_size;
  for (int64_t d = 0; d < size; ++d) {
    block[kv_key_offset(shape, position, d)] = convert(k[d]);
    block[kv_value_offset(shape, position, d)] = convert(v[d]);
  }
  for (int64_t d = size; d < kv_key_elements(shape); ++d) {
    block[kv_key_offset(shape, position, d)] = To{};
  }
  for (int64_t d = size; d < padded_head_size(size); ++d) {
    block[kv_value_offset(shape, position, d)] = To{};
  }
}

/// Into a block of codes.
template <typename From>
void append_codes(const KvCacheShape& shape, const From* k, const From* v, int64_t position,
                  int8_t* block) {
  const int64_t size = shape.head_size;
  for (int64_t first = 0; first < size; first += kCodedChannels) {
    const auto count = static_cast<size_t>(std::min(kCodedChannels, size - first));
    float numbers[kCodedChannels];
    int8_t codes[kCodedChannels];
    for (const bool is_key : {true, false}) {
      const From* const from = (is_key ? k : v) + first;
      for (size_t i = 0; i < count; ++i) numbers[i] = to_f32(from[i]);
      const f16_t scale = code_channels(std::span(numbers).first(count), codes);
      for (size_t i = 0; i < count; ++i) {
        const int64_t d = first + static_cast<int64_t>(i);
        block[is_key ? kv_key_offset(shape, position, d) : kv_value_offset(shape, position, d)] =
            codes[i];
      }
      std::memcpy(block + (is_key ? kv_key_scale(shape, position, first)
                                  : kv_value_scale(shape, position, first)),
                  &scale, sizeof scale);
    }
  }
  for (int64_t d = size; d < padded_head_size(size); ++d)
    block[kv_value_offset(shape, position, d)] = 0;
}

template <typename To, typename From>
void append_as(const KvCacheAppend& a, Range part) {
  // Head after head, so that threads do not write the same cache lines.
  const int64_t num_rows = a.k_TKD.num_rows;
  for (int64_t i = part.begin; i < part.end; ++i) {
    const int64_t head = i / num_rows, t = i % num_rows;
    const int64_t s = sequence_of_row(a.sequences, t);
    const int64_t position = a.sequences.past[static_cast<size_t>(s)] + t -
                             a.sequences.cu_seqlens[static_cast<size_t>(s)];
    const int64_t block = kv_block(a.sequences, s, position);
    const auto* const k = reinterpret_cast<const From*>(a.k_TKD.at(t, head));
    const auto* const v = reinterpret_cast<const From*>(a.v_TKD.at(t, head));
    To* const to = a.cache.as<To>() + kv_block_offset(a.shape, block, head);
    if constexpr (sizeof(To) == 1)
      append_codes(a.shape, k, v, position, to);
    else
      append_head<To, From>(a.shape, k, v, position, to);
  }
}

template <typename From>
void append_part(const KvCacheAppend& a, Range part) {
  switch (a.shape.dtype) {
    case DType::f32:
      return append_as<float, From>(a, part);
    case DType::f16:
      return append_as<f16_t, From>(a, part);
    case DType::i8:
      return append_as<int8_t, From>(a, part);
    default:
      return append_as<bf16_t, From>(a, part);
  }
}

}  // namespace

void kv_cache_append_blocks(Exec& exec, const KvCacheAppend& a) {
  const DType dtype = a.k_TKD.dtype;
  const auto part = dtype == DType::f32   ? append_part<float>
                    : dtype == DType::f16 ? append_part<f16_t>
                                          : append_part<bf16_t>;
  exec.device.pool().for_range(a.shape.num_kv_heads * a.k_TKD.num_rows, 8,
                               [&](Range range, int) { part(a, range); });
}

int64_t attention_cached_scratch(const Exec& exec, const AttentionCached& a) {
  return distance_bias_bytes(a.bias, longest_sequence(a)) +
         items_scratch_bytes(exec, CachedScratch(a).floats());
}

void attention_cached_blocks(Exec& exec, const AttentionCached& a) {
  const CachedScratch layout(a);
  const int64_t step = cached_item_rows(a.q_TND.num_heads / a.shape.num_kv_heads);
  const std::vector<AttentionItem> items = cached_items(a, step);
  const ScoreRule rule(a.scale, a.softcap, spread_bias(a.bias, longest_sequence(a), exec.scratch));
  run_items(exec, items, layout.floats(),
            exec.scratch + distance_bias_bytes(a.bias, longest_sequence(a)),
            [&](const AttentionItem& item, float* scratch) {
              MEGA_CALL_SIMD(exec, attention::run_cached_item, a, rule, layout, item, scratch);
            });
}

}  // namespace megalith::kernels
#endif

// SPDX-License-Identifier: Apache-2.0
// What attention packs and writes: strided heads to and from blocks of floats, and the factors of
// dropped probabilities. Included once per instruction set.

#if defined(MEGA_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_PACK_INL_H_
#undef MEGA_ATTENTION_PACK_INL_H_
#else
#define MEGA_ATTENTION_PACK_INL_H_
#endif

#include <cmath>

#include "kernels/attention/attention_work.h"
#include "kernels/attention/block_product-inl.h"
#include "kernels/elementwise/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

// ---------------------------------------------------------------- packing

/// rows x columns of x to out (rows `width` apart), zeros up to `width`.
template <class T>
HWY_INLINE void pack_rows(const T* x, int64_t row_stride, int64_t rows, int64_t columns,
                          int64_t width, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* from = x + r * row_stride;
    float* to = out + r * width;
    int64_t c = 0;
    for (; c + kFloatLanes <= columns; c += kFloatLanes) store(load(from + c), to + c);
    if (c < columns) store(load_some(from + c, columns - c), to + c);
    for (c = round_up(columns, kFloatLanes); c < width; c += kFloatLanes) {
      store(hn::Zero(FloatTag()), to + c);
    }
  }
}
HWY_INLINE void pack_rows(const ConstHeadsView& x, int64_t row, int64_t head, int64_t rows,
                          int64_t width, float* out) {
  const std::byte* from = x.at(row, head);
  if (x.dtype == DType::bf16) {
    pack_rows(reinterpret_cast<const bf16_t*>(from), x.row_stride, rows, x.head_size, width, out);
  } else if (x.dtype == DType::f16) {
    pack_rows(reinterpret_cast<const f16_t*>(from), x.row_stride, rows, x.head_size, width, out);
  } else {
    pack_rows(reinterpret_cast<const float*>(from), x.row_stride, rows, x.head_size, width, out);
  }
}

/// Asks for rows that will be packed soon: heads lie far apart in a row, which hardware does not
/// foresee (a fifth of forward's time in a fused projection of 2304 columns).
HWY_INLINE void prefetch_rows(const ConstHeadsView& x, int64_t row, int64_t head, int64_t rows) {
  const int64_t bytes = x.head_size * bytes_of(x.dtype);
  for (int64_t r = row; r < row + rows; ++r) {
    const std::byte* from = x.at(r, head);
    for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(from + b, 0, 2);
    __builtin_prefetch(from + bytes - 1, 0, 2);
  }
}

/// The same for a row that will be written soon.
HWY_INLINE void prefetch_output(const HeadsView& y, int64_t row, int64_t head) {
  if (row >= y.num_rows) return;
  const std::byte* to = y.at(row, head);
  const int64_t bytes = y.head_size * bytes_of(y.dtype);
  for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(to + b, 1, 3);
  __builtin_prefetch(to + bytes - 1, 1, 3);
}

/// out [columns, 64] = transpose of x [rows <= 64, width]; columns beyond `rows` become 0.
HWY_INLINE void transpose_block(float* x, int64_t rows, int64_t columns, int64_t width,
                                float* out) {
  const hn::FixedTag<float, 4> d4;
  const hn::RepartitionToWide<decltype(d4)> d2;
  for (int64_t i = rows * width; i < round_up<int64_t>(rows, 4) * width; ++i) x[i] = 0.0f;
  for (int64_t c = 0; c < columns; c += 4) {
    for (int64_t r = 0; r < rows; r += 4) {
      const float* from = x + r * width + c;
      const auto r0 = hn::LoadU(d4, from), r1 = hn::LoadU(d4, from + width);
      const auto r2 = hn::LoadU(d4, from + 2 * width), r3 = hn::LoadU(d4, from + 3 * width);
      const auto low01 = hn::BitCast(d2, hn::InterleaveLower(d4, r0, r1));
      const auto low23 = hn::BitCast(d2, hn::InterleaveLower(d4, r2, r3));
      const auto high01 = hn::BitCast(d2, hn::InterleaveUpper(d4, r0, r1));
      const auto high23 = hn::BitCast(d2, hn::InterleaveUpper(d4, r2, r3));
      float* to = out + c * kKeyBlock + r;
      const int64_t left = columns - c;
      hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, low01, low23)), d4, to);
      if (left > 1) {
        hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, low01, low23)), d4, to + kKeyBlock);
      }
      if (left > 2) {
        hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, high01, high23)), d4,
                   to + 2 * kKeyBlock);
      }
      if (left > 3) {
        hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, high01, high23)), d4,
                   to + 3 * kKeyBlock);
      }
    }
  }
  const int64_t filled = round_up<int64_t>(rows, 4);
  for (int64_t c = 0; c < columns && filled < kKeyBlock; ++c) {
    std::fill(out + c * kKeyBlock + filled, out + (c + 1) * kKeyBlock, 0.0f);
  }
}

/// `rows` f32 rows to the rows of y, rounded once.
HWY_INLINE void unpack_row(const float* from, const HeadsView& y, int64_t row, int64_t head) {
  std::byte* to = y.at(row, head);
  const auto write = [&]<class T>(T* out) HWY_ATTR {
    int64_t c = 0;
    for (; c + kFloatLanes <= y.head_size; c += kFloatLanes) store(load(from + c), out + c);
    if (c < y.head_size) store_some(load(from + c), out + c, y.head_size - c);
  };
  if (y.dtype == DType::bf16) {
    write(reinterpret_cast<bf16_t*>(to));
  } else if (y.dtype == DType::f16) {
    write(reinterpret_cast<f16_t*>(to));
  } else {
    write(reinterpret_cast<float*>(to));
  }
}

/// Finished chains to the rows of a gradient; + 0 makes a negative zero positive.
HWY_INLINE void write_rows(float* from_RD, int64_t count, int64_t width, const HeadsView& to,
                           int64_t row, int64_t head) {
  for (int64_t r = 0; r < count; ++r) {
    float* from = from_RD + r * width;
    if (r + 8 < count) prefetch_output(to, row + r + 8, head);
    for (int64_t c = 0; c < width; c += kFloatLanes) {
      store(hn::Add(load(from + c), hn::Zero(FloatTag())), from + c);
    }
    unpack_row(from, to, row + r, head);
  }
}

// ---------------------------------------------------------------- dropout

/// Dropout of one sequence's probabilities.
struct SequenceDropout {
  bool on = false;
  uint32_t threshold = 0;
  float scale = 1;
  uint64_t key = 0;
  uint64_t sample = 0;
  uint64_t query_position = 0;  // of the sequence's first query in the sample
  uint64_t key_position = 0;    // and of its first key
  uint64_t head_begin = 0;

  SequenceDropout() = default;
  SequenceDropout(const AttentionSequences& sequences, const AttentionDropout& dropout,
                  int64_t sequence)
      : on(dropout.p > 0) {
    if (!on) return;
    threshold = dropout_threshold(dropout.p);
    scale = dropout_scale(dropout.p);
    key = dropout.key;
    sample = static_cast<uint64_t>(dropout.sample_S.as<int64_t>()[sequence]);
    query_position = static_cast<uint64_t>(dropout.position_S.as<int64_t>()[sequence]);
    key_position = sequences.cu_seqlens_keys.empty() ? query_position : 0;
    head_begin = static_cast<uint64_t>(dropout.head_begin);
  }
};

/// factor[j] = 0 where key first_key + j of (query, head) is dropped, else the scale; 64 of them.
HWY_INLINE void dropout_factors(const SequenceDropout& dropout, int64_t head, int64_t query,
                                int64_t first_key, float* factor) {
  constexpr int64_t kRoom = 64 + 2 * 32;
  HWY_ALIGN float drawn[kRoom];
  const uint64_t from = dropout.key_position + static_cast<uint64_t>(first_key);
  const auto skip = static_cast<int64_t>(from % 4);
  const auto second = static_cast<uint32_t>(dropout.query_position + static_cast<uint64_t>(query));
  const uint64_t high = dropout.sample << 16 | (dropout.head_begin + static_cast<uint64_t>(head));
  const FloatVec keep = hn::Set(FloatTag(), dropout.scale);
  for (int64_t j = 0; j < 64 + skip; j += 2 * kFloatLanes) {
    WordVec a, b;
    philox_words(
        dropout.key,
        static_cast<uint32_t>((from - static_cast<uint64_t>(skip) + static_cast<uint64_t>(j)) / 4),
        second, high, a, b);
    store(hn::IfThenElseZero(at_least(a, dropout.threshold), keep), drawn + j);
    store(hn::IfThenElseZero(at_least(b, dropout.threshold), keep), drawn + j + kFloatLanes);
  }
  for (int64_t j = 0; j < 64; j += kFloatLanes) store(load(drawn + skip + j), factor + j);
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_PACK_INL_H_

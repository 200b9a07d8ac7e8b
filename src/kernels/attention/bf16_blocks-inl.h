// SPDX-License-Identifier: Apache-2.0
// What bf16 attention packs, rounds and writes. Heads become words of two neighbours in the
// contraction (bf16_product-inl.h):
//   rows         [r][d / 2]       neighbours in d: the left side of scores
//   transposed   [d / 2][32 r]    the same as a right side, one chunk of rows
//   row pairs    [r / 2][d]       neighbours in r: values in forward, gradients in backward
// Odd ends are filled up with zeros. Included once per instruction set.

#if defined(MEGA_ATTENTION_BF16_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGA_ATTENTION_BF16_BLOCKS_INL_H_
#undef MEGA_ATTENTION_BF16_BLOCKS_INL_H_
#else
#define MEGA_ATTENTION_BF16_BLOCKS_INL_H_
#endif

#include <cstring>

#include "kernels/attention/attention_pack-inl.h"
#include "kernels/attention/bf16_product-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace attention {

// ---------------------------------------------------------------- packing

HWY_INLINE const bf16_t* bf16_at(const ConstHeadsView& x, int64_t row, int64_t head) {
  return reinterpret_cast<const bf16_t*>(x.at(row, head));
}

/// `columns` elements to words, and zeros up to `words`.
HWY_INLINE void pack_words(const bf16_t* from, int64_t columns, int64_t words, uint32_t* out) {
  int64_t w = 0;
  for (; w + kFloatLanes <= columns / 2; w += kFloatLanes) {
    std::memcpy(out + w, from + 2 * w, kFloatLanes * sizeof(uint32_t));
  }
  if (w == words) return;
  std::fill(out + w, out + words, 0u);
  std::memcpy(out + w, from + 2 * w, static_cast<size_t>(columns - 2 * w) * sizeof(bf16_t));
}
HWY_INLINE void pack_word_rows(const ConstHeadsView& x, int64_t row, int64_t head, int64_t rows,
                               uint32_t* out) {
  const int64_t words = words_of(x.head_size);
  for (int64_t r = 0; r < rows; ++r) {
    pack_words(bf16_at(x, row + r, head), x.head_size, words, out + r * words);
  }
}

/// A vector of elements as the low halves of words; +0 from number `count` on.
HWY_INLINE WordVec load_halves(const bf16_t* from, int64_t count) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  HWY_ALIGN uint16_t some[kFloatLanes] = {};
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  if (count < kFloatLanes) {
    if (count <= 0) return hn::Zero(WordTag());
    std::memcpy(some, from, static_cast<size_t>(count) * sizeof(bf16_t));
    halves = some;
  }
  return hn::PromoteTo(WordTag(), hn::LoadU(d16, halves));
}

/// Rows of `width` words, of which `columns` come from x.
HWY_INLINE void pack_row_pairs(const ConstHeadsView& x, int64_t row, int64_t head, int64_t rows,
                               int64_t width, uint32_t* out) {
  const bf16_t* from = bf16_at(x, row, head);
  for (int64_t r = 0; r < rows; r += 2) {
    const bf16_t* low = from + r * x.row_stride;
    const bf16_t* high = low + x.row_stride;
    for (int64_t d = 0; d < width; d += kFloatLanes) {
      const int64_t count = x.head_size - d;
      WordVec words = load_halves(low + d, count);
      if (r + 1 < rows) {
        words = hn::Or(words, hn::ShiftLeft<16>(load_halves(high + d, count)));
      }
      hn::StoreU(words, WordTag(), out + r / 2 * width + d);
    }
  }
}

/// out[c * out_row + r] = x[r * row + c] for 4 rows and 4 columns.
template <class T>
HWY_INLINE void transpose4(const T* x, int64_t row, T* out, int64_t out_row) {
  const hn::FixedTag<T, 4> d4;
  const hn::RepartitionToWide<decltype(d4)> d2;
  const auto r0 = hn::LoadU(d4, x), r1 = hn::LoadU(d4, x + row);
  const auto r2 = hn::LoadU(d4, x + 2 * row), r3 = hn::LoadU(d4, x + 3 * row);
  const auto low01 = hn::BitCast(d2, hn::InterleaveLower(d4, r0, r1));
  const auto low23 = hn::BitCast(d2, hn::InterleaveLower(d4, r2, r3));
  const auto high01 = hn::BitCast(d2, hn::InterleaveUpper(d4, r0, r1));
  const auto high23 = hn::BitCast(d2, hn::InterleaveUpper(d4, r2, r3));
  hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, low01, low23)), d4, out);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, low01, low23)), d4, out + out_row);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, high01, high23)), d4, out + 2 * out_row);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, high01, high23)), d4, out + 3 * out_row);
}

/// Up to kChunk rows; the others become zeros.
HWY_INLINE void pack_transposed(const ConstHeadsView& x, int64_t row, int64_t head, int64_t rows,
                                uint32_t* out) {
  constexpr int64_t kPart = 32;  // words of a row at a time
  HWY_ALIGN uint32_t four[4 * kPart], tail[4 * 4];
  const int64_t words = words_of(x.head_size);
  for (int64_t r = 0; r < kChunk; r += 4) {
    for (int64_t first = 0; first < words; first += kPart) {
      const int64_t columns = std::min(2 * kPart, x.head_size - 2 * first);
      for (int64_t i = 0; i < 4; ++i) {
        if (r + i < rows) {
          pack_words(bf16_at(x, row + r + i, head) + 2 * first, columns,
                     round_up<int64_t>(words_of(columns), 4), four + i * kPart);
        } else {
          std::fill_n(four + i * kPart, kPart, 0u);
        }
      }
      for (int64_t w = 0; w < words_of(columns); w += 4) {
        uint32_t* to = out + (first + w) * kChunk + r;
        const int64_t left = words - first - w;
        if (left >= 4) {
          transpose4(four + w, kPart, to, kChunk);
          continue;
        }
        transpose4(four + w, kPart, tail, 4);
        for (int64_t i = 0; i < left; ++i) std::copy_n(tail + i * 4, 4, to + i * kChunk);
      }
    }
  }
}

// ---------------------------------------------------------------- writing

/// Rounds value(v, lane) of each vector v of x_DI [size][kChunk], lanes from `lane` on, and writes
/// each lane's column as a row of `size` to to(lane), for lanes below `count`. Works in place:
/// overwrites x_DI, of which an even number of rows is read.
template <class Value, class To>
HWY_INLINE void write_lanes(float* x_DI, int64_t size, int64_t count, const Value& value,
                            const To& to) {
  const int64_t words = words_of(size);
  auto* x_WI = reinterpret_cast<uint32_t*>(x_DI);
  const WordVec high = hn::Set(WordTag(), 0xffff0000u);
  for (int64_t w = 0; w < words; ++w) {
    for (int64_t lane = 0; lane < kChunk; lane += kFloatLanes) {
      const float* even = x_DI + 2 * w * kChunk + lane;
      const WordVec low = bf16_bits(value(load(even), lane));
      const WordVec odd = bf16_bits(value(load(even + kChunk), lane));
      hn::StoreU(hn::Or(hn::ShiftRight<16>(low), hn::And(odd, high)), WordTag(),
                 x_WI + w * kChunk + lane);
    }
  }
  HWY_ALIGN uint32_t four[4 * 4];
  const int64_t whole = size / 8 * 4;  // words in fours
  for (int64_t lane = 0; lane < count; lane += 4) {
    std::byte* row[4];
    for (int64_t i = 0; i < 4; ++i) {  // of no more lanes than there are: the last one again
      row[i] = reinterpret_cast<std::byte*>(to(std::min(lane + i, count - 1)));
    }
    for (int64_t w = 0; w < whole; w += 4) {
      transpose4(x_WI + w * kChunk + lane, kChunk, four, 4);
#pragma GCC unroll 4
      for (int64_t i = 3; i >= 0; --i) {
        const int64_t from = std::min(i, count - 1 - lane);
        std::memcpy(row[i] + w * 4, four + 4 * from, 16);
      }
    }
    if (whole == words) continue;
    // Words beyond the last belong to rows that are not written.
    transpose4(x_WI + whole * kChunk + lane, kChunk, four, 4);
    for (int64_t i = 0; i < std::min<int64_t>(4, count - lane); ++i) {
      std::memcpy(row[i] + whole * 4, four + 4 * i,
                  static_cast<size_t>(size - 2 * whole) * sizeof(bf16_t));
    }
  }
}

// ---------------------------------------------------------------- rounding

/// `v` with zeros for denormals: how the chain takes its operands, rounded to bf16 or not.
HWY_INLINE FloatVec flushed(FloatVec v) {
  const FloatTag d;
  return hn::IfThenZeroElse(hn::Lt(hn::Abs(v), hn::Set(d, 0x1p-126f)), v);
}
/// Two rows of lanes, rounded, as words (low half: `even`).
HWY_INLINE WordVec word_pairs(FmaPairs, FloatVec even, FloatVec odd) {
  const WordVec low = hn::ShiftRight<16>(bf16_bits(flushed(even)));
  return hn::Or(low, hn::And(bf16_bits(flushed(odd)), hn::Set(WordTag(), 0xffff0000u)));
}
/// One row of lanes, rounded: neighbours become words.
HWY_INLINE void store_words(FmaPairs, FloatVec v, uint32_t* to) {
  store(flushed(v), reinterpret_cast<bf16_t*>(to));
}
/// Two vectors of one row.
HWY_INLINE void store_words(FmaPairs steps, FloatVec v, FloatVec next, uint32_t* to) {
  store_words(steps, v, to);
  store_words(steps, next, to + kFloatLanes / 2);
}
#if HWY_CAP_GE512
HWY_INLINE WordVec word_pairs(DotPairs, FloatVec even, FloatVec odd) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd.raw, even.raw));
  return WordVec{_mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both)};
}
HWY_INLINE void store_words(DotPairs, FloatVec v, uint32_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v.raw)));
}
HWY_INLINE void store_words(DotPairs, FloatVec v, FloatVec next, uint32_t* to) {
  _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(next.raw, v.raw)));
}
#endif

// ---------------------------------------------------------------- masks

/// The keys [begin[lane], end[lane]) of its sequence that each query of a chunk sees; none in lanes
/// without a query.
struct SeenKeys {
  HWY_ALIGN int32_t begin[kChunk];
  HWY_ALIGN int32_t end[kChunk];

  SeenKeys(const Sight& sight, int64_t query, int64_t queries) {
    for (int64_t lane = 0; lane < kChunk; ++lane) {
      const Range seen = lane < queries ? sight.keys_of(query + lane) : Range{};
      begin[lane] = static_cast<int32_t>(seen.begin);
      end[lane] = static_cast<int32_t>(seen.end);
    }
  }
};
/// The same for a vector of lanes.
struct SeenLanes {
  hn::Vec<hn::RebindToSigned<FloatTag>> begin, end;

  SeenLanes(const SeenKeys& seen, int64_t lane)
      : begin(hn::LoadU(hn::RebindToSigned<FloatTag>(), seen.begin + lane)),
        end(hn::LoadU(hn::RebindToSigned<FloatTag>(), seen.end + lane)) {}
  HWY_INLINE hn::Mask<FloatTag> see(int64_t key) const {
    const auto at = hn::Set(hn::RebindToSigned<FloatTag>(), static_cast<int32_t>(key));
    return hn::RebindMask(FloatTag(), hn::AndNot(hn::Gt(begin, at), hn::Gt(end, at)));
  }
};

/// keep[j / 32 * kChunk + lane], bit j % 32: whether key first_key + j of the lane's query is kept.
/// j runs up to `keys` rounded up to 64.
HWY_INLINE void keep_bits(const SequenceDropout& dropout, int64_t head, int64_t query,
                          int64_t queries, int64_t first_key, int64_t keys, uint32_t* keep) {
  std::fill(keep, keep + round_up<int64_t>(keys, 64) / 32 * kChunk, 0u);
  HWY_ALIGN float factor[64];
  for (int64_t lane = 0; lane < queries; ++lane) {
    for (int64_t j = 0; j < keys; j += 64) {
      dropout_factors(dropout, head, query + lane, first_key + j, factor);
      uint8_t bits[64 / 8 + 8];
      for (int64_t i = 0; i < 64; i += kFloatLanes) {
        const auto kept = hn::Ne(load(factor + i), hn::Zero(FloatTag()));
        hn::StoreMaskBits(FloatTag(), kept, bits + i / 8);
      }
      std::memcpy(keep + j / 32 * kChunk + lane, bits, sizeof(uint32_t));
      std::memcpy(keep + (j / 32 + 1) * kChunk + lane, bits + 4, sizeof(uint32_t));
    }
  }
}
/// Of the lanes from `lane` on: `scale` where key number j is kept, else 0.
HWY_INLINE FloatVec keep_factors(const uint32_t* keep, int64_t j, int64_t lane, FloatVec scale) {
  const WordTag dw;
  const WordVec bits = hn::LoadU(dw, keep + j / 32 * kChunk + lane);
  const auto kept = hn::TestBit(bits, hn::Set(dw, uint32_t{1} << (j % 32)));
  return hn::IfThenElseZero(hn::RebindMask(FloatTag(), kept), scale);
}

}  // namespace attention
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // MEGA_ATTENTION_BF16_BLOCKS_INL_H_

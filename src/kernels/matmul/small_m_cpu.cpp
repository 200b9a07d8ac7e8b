// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "base/integer.h"
#include "kernels/elementary/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/small_m_cpu.cpp"
#include "hwy/foreach_target.h"
// Above: compiles all that follows once per instruction set.
#include "kernels/elementary/bf16_chain-inl.h"
#include "kernels/matmul/epilogue-inl.h"
#include "kernels/matmul/pack-inl.h"
#include "kernels/matmul/small_m.h"
#include "kernels/matmul/small_m_pack-inl.h"

MEGA_BEFORE_BF16_NAMESPACE();
namespace megalith::kernels::matmul {
namespace HWY_NAMESPACE {
namespace {

/// The rows of B (outputs) from `from` on, as load_transposed wants them: four pointers and a
/// distance reach 16 rows with few registers.
struct Rows {
  const std::byte* quad[kLanes / 4];
  int64_t stride;  // bytes

  Rows() = default;
  Rows(const std::byte* from, int64_t stride_bytes) : stride(stride_bytes) {
    for (int q = 0; q < kLanes / 4; ++q) quad[q] = from + 4 * q * stride;
  }
  HWY_INLINE const std::byte* at(int row, int64_t offset) const {
    return quad[row / 4] + (row % 4) * stride + offset;
  }
};

/// Sums of kRows rows of A times kGroups vectors of columns. All loops over them are unrolled, or
/// they would not stay in registers.
template <int kRows, int kGroups>
struct Sums {
  FloatVec sum[kGroups][kRows];
};

/// One step of kRows x kGroups chains: a[row] with the words of B, or with the floats `which` of
/// theirs (pack-inl.h).
template <typename T, PanelForm kForm, int kRows, int kGroups>
HWY_INLINE void add_step(const float* a, const WordVec (&word)[kGroups], int which,
                         Sums<kRows, kGroups>& sums) {
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      FloatVec& sum = sums.sum[g][r];
#if HWY_CAP_GE512
      if constexpr (kForm == PanelForm::words) {
        const WordVec x = hn::Set(WordTag(), std::bit_cast<uint32_t>(a[r]));
        sum = DotPairs::step(x, word[g], sum);
        continue;
      }
#endif
      sum = hn::MulAdd(hn::Set(FloatTag(), a[r]), widened_half<T>(word[g], which), sum);
    }
  }
}

/// Steps that a word of B makes.
template <typename T, PanelForm kForm>
inline constexpr int kStepsPerWord = kForm == PanelForm::words ? 1 : kPerWord<T>;

/// All steps of a word.
template <typename T, PanelForm kForm, int kRows, int kGroups>
HWY_INLINE void add_word(const float* a, const WordVec (&word)[kGroups],
                         Sums<kRows, kGroups>& sums) {
#pragma GCC unroll 2
  for (int j = 0; j < kStepsPerWord<T, kForm>; ++j) {
    const int which = kForm == PanelForm::swapped ? 1 - j : j;
    add_step<T, kForm>(a + j * kRows, word, which, sums);
  }
}

/// The next steps of all chains; the groups advance side by side, because a chain
/// waits for its own last sum.
template <typename T, PanelForm kForm, int kRows, int kGroups>
HWY_INLINE void add_blocks(const WordVec (&v)[kGroups][kLanes / 4][4], const float* a,
                           Sums<kRows, kGroups>& sums) {
#pragma GCC unroll 4
  for (int c = 0; c < kLanes / 4; ++c) {
    WordVec words[kGroups][4];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) transpose_blocks(v[g][c], words[g]);
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      WordVec word[kGroups];
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) word[g] = words[g][w];
      add_word<T, kForm>(a + (c * 4 + w) * kStepsPerWord<T, kForm> * kRows, word, sums);
    }
  }
}

/// Word k of kLanes rows (k counts elements; beyond `end` they are 0).
template <typename T>
HWY_INLINE WordVec gather_word(const Rows& rows, int64_t k, int64_t end) {
  const int64_t count = std::min<int64_t>(kPerWord<T>, end - k);
  uint32_t column[kLanes] = {};
  for (int r = 0; r < kLanes; ++r)
    std::memcpy(&column[r], rows.at(r, k * static_cast<int64_t>(sizeof(T))),
                static_cast<size_t>(count) * sizeof(T));
  return hn::LoadU(WordTag(), column);
}

/// The chains over k in [begin, end). `a` is packed: a[step * kRows + row]. The rows that come
/// `prefetch` bytes later are fetched in the order in which they lie in memory (0: not at all).
template <typename T, PanelForm kForm, int kRows, int kGroups>
HWY_INLINE void run_chains(const float* a, const Rows (&rows)[kGroups], int64_t begin, int64_t end,
                           int64_t prefetch, Sums<kRows, kGroups>& sums) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  constexpr int kVector = kLanes * kPerWord<T>;  // k of one vector of each row
  constexpr int kPerVector = kLanes * kStepsPerWord<T, kForm>;
  WordVec blocks[kGroups][kLanes / 4][4];
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums.sum[g][r] = hn::Zero(FloatTag());
  }
  int64_t k = begin;
  for (; k + kVector <= end; k += kVector, a += kPerVector * kRows) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      if (prefetch != 0) {
#pragma GCC unroll 16
        for (int line = 0; line < kLanes * kLanes / 16; ++line)
          __builtin_prefetch(rows[g].at(0, k * kSize * kLanes + prefetch + line * 64), 0, 2);
      }
      load_blocks([&](int r) HWY_ATTR { return rows[g].at(r, k * kSize); }, blocks[g]);
    }
    add_blocks<T, kForm>(blocks, a, sums);
  }
  for (; k < end; k += kPerWord<T>, a += kStepsPerWord<T, kForm> * kRows) {
    WordVec word[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) word[g] = gather_word<T>(rows[g], k, end);
    if (kForm == PanelForm::floats && end - k < kPerWord<T>)
      add_step<T, kForm>(a, word, 0, sums);  // a pair of the f32 chain may end with its first
    else
      add_word<T, kForm>(a, word, sums);
  }
}

/// kGroups vectors of columns from `first` on, for the rows packed at `a`; num_columns of them from
/// `column` on are stored. The tree over the shards runs on a stack of partial sums.
template <typename T, PanelForm kForm, int kRows, int kGroups>
void run_columns(const Product& product, const std::vector<int>& merges, const float* a, Range rows,
                 int64_t first, int64_t column, int64_t num_columns) {
  constexpr int kWidth = kGroups * kLanes;
  HWY_ALIGN float stack[kMaxLevels][kRows][kWidth];
  Rows from[kGroups];
  const int64_t stride = product.b.stride * static_cast<int64_t>(sizeof(T));
  for (int g = 0; g < kGroups; ++g)
    from[g] = Rows(product.b.data + (first + g * kLanes) * stride, stride);
  const int64_t width = product.k / product.k_shards;
  // The processor follows long rows by itself; short ones end before it has noticed. Into the
  // second-level cache: in the first, 16 rows at a distance of 4 KiB have no room beside each
  // other.
  constexpr int64_t kLongRow = 12 * 1024;
  const int64_t prefetch = stride <= kLongRow ? kWidth * stride : 0;
  int depth = 0;
  for (int shard = 0; shard < product.k_shards; ++shard) {
    Sums<kRows, kGroups> sums;
    {
      // Chains begin and end in memory: nothing moves out or in.
      const FlushDenormals flush(kForm == PanelForm::swapped);
      run_chains<T, kForm>(a + shard * steps_of<kForm>(width) * kRows, from, shard * width,
                           (shard + 1) * width, prefetch, sums);
    }
    depth = push_shard(sums.sum, merges[static_cast<size_t>(shard)], stack, depth);
  }
  finish_tile(product.epilogue, stack[0][0] + (column - first), kWidth, rows.begin, rows.size(),
              column, num_columns);
}

/// All columns of a thread. Where fewer than a vector are left, the vector ends with them and
/// begins with columns that are computed again and not stored.
template <typename T, PanelForm kForm, int kRows, int kGroups>
void run_rows(const Product& product, const std::vector<int>& merges, const float* a, Range rows,
              Range columns) {
  int64_t c = columns.begin;
  for (; c + kGroups * kLanes <= columns.end; c += kGroups * kLanes)
    run_columns<T, kForm, kRows, kGroups>(product, merges, a, rows, c, c, kGroups * kLanes);
  for (; c < columns.end; c += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, columns.end - c);
    const int64_t first = std::min<int64_t>(c, product.n - kLanes);
    run_columns<T, kForm, kRows, 1>(product, merges, a, rows, first, c, count);
  }
}

template <typename T, PanelForm kForm>
void run_type(const Product& product, const std::vector<int>& merges, int rows_at_once,
              const float* a, Range rows, Range columns) {
  constexpr bool kWide = HWY_CAP_GE512;
  switch (rows_at_once) {
    case 1:
      return run_rows < T, kForm, 1, kWide ? 1 : 2 > (product, merges, a, rows, columns);
    case 2:
      return run_rows<T, kForm, 2, 1>(product, merges, a, rows, columns);
    case 4:
      return run_rows<T, kForm, 4, 1>(product, merges, a, rows, columns);
    case 8:
      return run_rows<T, kForm, 8, 1>(product, merges, a, rows, columns);
    default:
      return run_rows < T, kForm, kWide ? 16 : 8, 1 > (product, merges, a, rows, columns);
  }
}

}  // namespace

void run_small_m_part(const Product& product, PanelForm form, const std::vector<int>& merges,
                      int rows_at_once, const float* a, Range rows, Range columns) {
  const auto run = [&](auto element, auto of) {
    run_type<decltype(element), of()>(product, merges, rows_at_once, a, rows, columns);
  };
  using Floats = std::integral_constant<PanelForm, PanelForm::floats>;
  if (product.b.dtype == DType::f32) return run(float(), Floats());
  if (product.b.dtype == DType::f16) return run(f16_t(), Floats());
  if (form == PanelForm::floats) return run(bf16_t(), Floats());
#if HWY_CAP_GE512
  if (form == PanelForm::words)
    return run(bf16_t(), std::integral_constant<PanelForm, PanelForm::words>());
#endif
  return run(bf16_t(), std::integral_constant<PanelForm, PanelForm::swapped>());
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels::matmul {
namespace {

constexpr int64_t kMinColumns = 16;

/// Rows of A whose sums fit the registers beside one or more vectors of columns.
RowPasses passes_of(const Product& product, device::Isa isa) {
  return {product, isa == device::Isa::avx2 ? 8 : 16};
}

}  // namespace

bool is_small_m(const Product& product) {
  return product.m <= kFewRows && product.n >= kMinColumns && product.a.k_contiguous &&
         product.b.k_contiguous && is_plain(product.b.format) && !product.has_runs() &&
         bytes_of(product.a.dtype) > 1 && bytes_of(product.b.dtype) > 1;
}

int64_t small_m_scratch_bytes(const Product& product, device::Isa isa) {
  return passes_of(product, isa).bytes();
}

void run_small_m(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch) {
  const bool avx2 = isa == device::Isa::avx2;
  const PanelForm form = panel_form(product, isa);
  const RowPasses passes = passes_of(product, isa);
  float* const packed = reinterpret_cast<float*>(scratch);
  (avx2 ? N_AVX2::pack_small_m : N_AVX3::pack_small_m)(product, form, passes, packed);
  const std::vector<int> merges = shard_merges(product.k_shards);
  const auto run = avx2 ? N_AVX2::run_small_m_part : N_AVX3::run_small_m_part;
  pool.for_pieces(product.n, 64, [&](Range columns, int) {
    passes.for_each(packed, [&](Range rows, const float* a) {
      run(product, form, merges, passes.rows, a, rows, columns);
    });
  });
}

}  // namespace megalith::kernels::matmul
#endif

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "base/integer.h"
#include "kernels/elementary/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/small_m_cpu.cpp"
#include "hwy/foreach_target.h"
// Above: compiles all that follows once per instruction set.
#include "kernels/matmul/epilogue-inl.h"
#include "kernels/matmul/pack-inl.h"
#include "kernels/matmul/small_m.h"

HWY_BEFORE_NAMESPACE();
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

/// The next steps of all chains; the groups advance side by side, because a chain
/// waits for its own last sum.
template <typename T, int kRows, int kGroups>
HWY_INLINE void add_blocks(const WordVec (&v)[kGroups][kLanes / 4][4], const float* a,
                           Sums<kRows, kGroups>& sums) {
  constexpr int kPart = 4 * kPerWord<T>;  // k of one transposition of blocks
#pragma GCC unroll 4
  for (int c = 0; c < kLanes / 4; ++c) {
    WordVec word[kGroups][4];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) transpose_blocks(v[g][c], word[g]);
#pragma GCC unroll 8
    for (int j = 0; j < kPart; ++j) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const FloatVec b = widened_half<T>(word[g][j / kPerWord<T>], j % kPerWord<T>);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r)
          sums.sum[g][r] =
              hn::MulAdd(hn::Set(FloatTag(), a[(c * kPart + j) * kRows + r]), b, sums.sum[g][r]);
      }
    }
  }
}

/// The chains over k in [begin, end). `a` is packed: a[k * kRows + row]. The rows that come
/// `prefetch` bytes later are fetched in the order in which they lie in memory (0: not at all).
template <typename T, int kRows, int kGroups>
HWY_INLINE void run_chains(const float* a, const Rows (&rows)[kGroups], int64_t begin, int64_t end,
                           int64_t prefetch, Sums<kRows, kGroups>& sums) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  constexpr int kStep = kLanes * kPerWord<T>;  // k of one vector of each row
  WordVec blocks[kGroups][kLanes / 4][4];
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums.sum[g][r] = hn::Zero(FloatTag());
  }
  int64_t k = begin;
  for (; k + kStep <= end; k += kStep) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      if (prefetch != 0) {
#pragma GCC unroll 16
        for (int line = 0; line < kLanes * kLanes / 16; ++line)
          __builtin_prefetch(rows[g].at(0, k * kSize * kLanes + prefetch + line * 64), 0, 2);
      }
      load_blocks([&](int r) HWY_ATTR { return rows[g].at(r, k * kSize); }, blocks[g]);
    }
    add_blocks<T>(blocks, a + k * kRows, sums);
  }
  for (; k < end; ++k) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      T column[kLanes];
      for (int r = 0; r < kLanes; ++r) std::memcpy(&column[r], rows[g].at(r, k * kSize), sizeof(T));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
        sums.sum[g][r] =
            hn::MulAdd(hn::Set(FloatTag(), a[k * kRows + r]), load(column), sums.sum[g][r]);
    }
  }
}

/// kGroups vectors of columns from `first` on, for the rows packed at `a`; num_columns of them from
/// `column` on are stored. The tree over the shards runs on a stack of partial sums.
template <typename T, int kRows, int kGroups>
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
    run_chains<T, kRows, kGroups>(a, from, shard * width, (shard + 1) * width, prefetch, sums);
    const int num_merges = merges[static_cast<size_t>(shard)];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        FloatVec sum = sums.sum[g][r];
        for (int i = 1; i <= num_merges; ++i)
          sum = hn::Add(load(stack[depth - i][r] + g * kLanes), sum);
        store(sum, stack[depth - num_merges][r] + g * kLanes);
      }
    }
    depth += 1 - num_merges;
  }
  finish_tile(product.epilogue, stack[0][0] + (column - first), kWidth, rows.begin, rows.size(),
              column, num_columns);
}

/// All columns of a thread. Where fewer than a vector are left, the vector ends with them and
/// begins with columns that are computed again and not stored.
template <typename T, int kRows, int kGroups>
void run_rows(const Product& product, const std::vector<int>& merges, const float* a, Range rows,
              Range columns) {
  int64_t c = columns.begin;
  for (; c + kGroups * kLanes <= columns.end; c += kGroups * kLanes)
    run_columns<T, kRows, kGroups>(product, merges, a, rows, c, c, kGroups * kLanes);
  for (; c < columns.end; c += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, columns.end - c);
    const int64_t first = std::min<int64_t>(c, product.n - kLanes);
    run_columns<T, kRows, 1>(product, merges, a, rows, first, c, count);
  }
}

template <typename T>
void run_type(const Product& product, const std::vector<int>& merges, int rows_at_once,
              const float* a, Range rows, Range columns) {
  switch (rows_at_once) {
    case 1:
      return run_rows < T, 1, HWY_CAP_GE512 ? 1 : 2 > (product, merges, a, rows, columns);
    case 2:
      return run_rows<T, 2, 1>(product, merges, a, rows, columns);
    case 4:
      return run_rows<T, 4, 1>(product, merges, a, rows, columns);
    case 8:
      return run_rows<T, 8, 1>(product, merges, a, rows, columns);
    default:
      return run_rows < T, HWY_CAP_GE512 ? 16 : 8, 1 > (product, merges, a, rows, columns);
  }
}

}  // namespace

void run_small_m_part(const Product& product, const std::vector<int>& merges, int rows_at_once,
                      const float* a, Range rows, Range columns) {
  if (product.b.dtype == DType::bf16)
    run_type<bf16_t>(product, merges, rows_at_once, a, rows, columns);
  else
    run_type<float>(product, merges, rows_at_once, a, rows, columns);
}

/// All rows of A as f32, `rows_at_once` side by side; those beyond the last are 0.
template <typename T>
void pack_rows(const Product& product, int rows_at_once, int64_t distance, float* out) {
  const T* from = reinterpret_cast<const T*>(product.a.data);
  if (product.m == 1) {
    const int64_t whole = product.k / kLanes * kLanes, rest = product.k - whole;
    pack_straight<1>(from, kLanes, whole / kLanes, out);
    pack_straight_edge<kLanes>(from + whole, 0, rest, 1, out + whole);
    return;
  }
  for (int64_t row = 0; row < product.m; row += rows_at_once, out += distance) {
    for (int64_t r = 0; r < rows_at_once; ++r)
      for (int64_t k = 0; k < product.k; ++k)
        out[k * rows_at_once + r] =
            row + r < product.m ? to_f32(from[(row + r) * product.a.stride + k]) : 0.0f;
  }
}

void pack_small_m(const Product& product, int rows_at_once, int64_t distance, float* out) {
  if (product.a.dtype == DType::bf16)
    pack_rows<bf16_t>(product, rows_at_once, distance, out);
  else
    pack_rows<float>(product, rows_at_once, distance, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace megalith::kernels::matmul
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels::matmul {
namespace {

constexpr int64_t kMaxRows = 16;
constexpr int64_t kMinColumns = 16;

/// Rows of A whose sums fit the registers beside one or more vectors of columns.
int rows_at_once(int64_t m, device::Isa isa) {
  const int64_t most = isa == device::Isa::avx2 ? 8 : 16;
  return static_cast<int>(
      std::min<int64_t>(most, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(m)))));
}

/// Floats of one pass of packed rows; packing writes whole vectors.
int64_t pass_floats(const Product& product, int rows) {
  return round_up<int64_t>(product.k * rows + 16, 16);
}

}  // namespace

bool is_small_m(const Product& product) {
  return product.m <= kMaxRows && product.n >= kMinColumns && product.a.k_contiguous &&
         product.b.k_contiguous && !product.accumulate;
}

int64_t small_m_scratch_bytes(const Product& product, device::Isa isa) {
  const int rows = rows_at_once(product.m, isa);
  return 4 * pass_floats(product, rows) * ceil_div<int64_t>(product.m, rows);
}

void run_small_m(const Product& product, device::Isa isa, ThreadPool& pool, std::byte* scratch) {
  const bool avx2 = isa == device::Isa::avx2;
  const int rows = rows_at_once(product.m, isa);
  const int64_t distance = pass_floats(product, rows);
  float* a = reinterpret_cast<float*>(scratch);
  (avx2 ? N_AVX2::pack_small_m : N_AVX3::pack_small_m)(product, rows, distance, a);
  const std::vector<int> merges = shard_merges(product.k_shards);
  const auto run = avx2 ? N_AVX2::run_small_m_part : N_AVX3::run_small_m_part;
  pool.for_pieces(product.n, 64, [&](Range columns, int) {
    for (int64_t row = 0; row < product.m; row += rows)
      run(product, merges, rows, a + row / rows * distance, {row, std::min(row + rows, product.m)},
          columns);
  });
}

}  // namespace megalith::kernels::matmul
#endif

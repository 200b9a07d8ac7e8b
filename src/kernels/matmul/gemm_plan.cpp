// SPDX-License-Identifier: Apache-2.0
// How a product is cut into parts for threads and blocks for caches. Block sizes are constants of
// the instruction set, not of the machine at hand, because scratch must be a function of shape and
// target.
#include <algorithm>
#include <limits>

#include "base/integer.h"
#include "kernels/matmul/gemm.h"

namespace megalith::kernels::matmul {
namespace {

// A block of packed B (k_block x n_block f32) stays in the second-level cache, 1 MiB or more on
// CPUs with AVX-512, 512 KiB on most others; a block of packed A streams through it from the third
// level.
struct BlockSize {
  int64_t k = 0;
  int64_t m = 0;
  int64_t n = 0;
};
BlockSize block_size(device::Isa isa) {
  return isa == device::Isa::avx2 ? BlockSize{384, 1200, 192} : BlockSize{768, 1176, 256};
}
// Unfinished sums of one thread, at most (they live in the third-level cache).
constexpr int64_t kMaxPartialFloats = int64_t{1} << 21;

/// merges[i]: how many sums of the tree over shards [lo, hi) are complete with shard i.
void count_merges(int lo, int hi, std::vector<int>& merges) {
  if (hi - lo == 1) return;
  const int mid = lo + (hi - lo + 1) / 2;
  count_merges(lo, mid, merges);
  count_merges(mid, hi, merges);
  ++merges[static_cast<size_t>(hi - 1)];
}

void cut_k(const Product& product, int64_t k_block, GemmPlan& plan) {
  const int64_t width = product.k / product.k_shards;
  const int64_t pieces = std::max<int64_t>(1, ceil_div(width, k_block));
  const int64_t piece = ceil_div(width, pieces);
  const std::vector<int> merges = shard_merges(product.k_shards);
  int depth = product.accumulate ? 1 : 0;
  for (int shard = 0; shard < product.k_shards; ++shard) {
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t begin = shard * width + p * piece;
      const int64_t end = std::min(begin + piece, (shard + 1) * width);
      const bool starts = p == 0 && !product.accumulate;
      if (plan.blocks.empty() || end - plan.blocks.back().begin > k_block) {
        const int first = static_cast<int>(plan.segments.size());
        plan.blocks.push_back({begin, begin, first, first, depth});
      }
      const int merged = p + 1 == pieces ? merges[static_cast<size_t>(shard)] : 0;
      plan.segments.push_back({begin, end, starts, merged});
      plan.blocks.back().end = end;
      ++plan.blocks.back().end_segment;
      if (starts) ++depth;
      plan.num_levels = std::max(plan.num_levels, depth);
      depth -= merged;
    }
  }
  MEGA_CHECK_LE(plan.num_levels, kMaxLevels);
}

/// The grid that keeps the most loaded thread shortest: its multiplications, plus what it packs (an
/// element costs about as much as `kPackCost` multiplications of a vector).
void choose_grid(const Product& product, TileSize tile, int num_threads, GemmPlan& plan) {
  constexpr double kPackCost = 16;
  double best = std::numeric_limits<double>::infinity();
  const int64_t tiles_n = ceil_div<int64_t>(product.n, tile.columns);
  for (int grid_m = 1; grid_m <= num_threads; ++grid_m) {
    const int grid_n = num_threads / grid_m;
    if (grid_n * grid_m != num_threads && grid_m != 1) continue;
    const double rows = static_cast<double>(ceil_div<int64_t>(product.m, grid_m));
    const double columns = static_cast<double>(ceil_div<int64_t>(tiles_n, grid_n) * tile.columns);
    const double cost = rows * columns + kPackCost * (rows + columns);
    if (cost <= best) {  // rows: where one operand is transposed, it is A
      best = cost;
      plan.grid_m = grid_m;
      plan.grid_n = grid_n;
    }
  }
}

}  // namespace

std::vector<int> shard_merges(int k_shards) {
  std::vector<int> merges(static_cast<size_t>(k_shards), 0);
  count_merges(0, k_shards, merges);
  return merges;
}

GemmPlan plan_gemm(const Product& product, const device::Target& target) {
  const TileSize tile = tile_size(target.isa);
  const BlockSize size = block_size(target.isa);
  GemmPlan plan;
  if (product.m == 0 || product.n == 0 || product.k == 0) return plan;
  cut_k(product, size.k, plan);
  choose_grid(product, tile, target.num_threads, plan);
  plan.plain_f32 = product.epilogue.is_plain() && product.epilogue.out.dtype() == DType::f32;
  plan.direct = product.accumulate || (product.k_shards == 1 && plan.plain_f32);

  const int64_t part_m = round_up<int64_t>(ceil_div<int64_t>(product.m, plan.grid_m), tile.rows);
  const int64_t part_n =
      ceil_div(ceil_div<int64_t>(product.n, tile.columns), int64_t{plan.grid_n}) * tile.columns;
  int64_t k_packed = 0;
  for (const KBlock& block : plan.blocks) k_packed = std::max(k_packed, block.end - block.begin);

  plan.m_block = std::min(part_m, round_up<int64_t>(size.m, tile.rows));
  plan.n_block = std::min(part_n, round_up<int64_t>(size.n, tile.columns));
  plan.n_slab = part_n;
  if (plan.direct || plan.blocks.size() == 1) {
    plan.partial_floats = int64_t{plan.num_levels} * tile.rows * tile.columns;
  } else {
    const int64_t columns = kMaxPartialFloats / (plan.m_block * plan.num_levels);
    plan.n_slab = std::min(part_n, std::max(columns / plan.n_block, int64_t{1}) * plan.n_block);
    plan.partial_floats = plan.m_block * plan.n_slab * plan.num_levels;
  }
  plan.packed_a_floats =
      round_up<int64_t>(plan.m_block / tile.rows * tile.row_pitch * k_packed, 16);
  plan.packed_b_floats = round_up<int64_t>(plan.n_block * k_packed, 16);
  plan.partial_floats = round_up<int64_t>(plan.partial_floats, 16);
  plan.thread_bytes = 4 * (plan.packed_a_floats + plan.packed_b_floats + plan.partial_floats);
  plan.scratch_bytes = plan.thread_bytes * plan.grid_m * plan.grid_n;
  return plan;
}

void run_gemm(const Product& product, const GemmPlan& plan, device::Isa isa, ThreadPool& pool,
              std::byte* scratch) {
  if (plan.blocks.empty()) return;
  pool.run([&](int thread) {
    if (thread < plan.grid_m * plan.grid_n)
      run_gemm_part(product, plan, isa, thread, scratch + thread * plan.thread_bytes);
  });
}

}  // namespace megalith::kernels::matmul

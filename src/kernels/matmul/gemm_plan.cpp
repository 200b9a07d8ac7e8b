// SPDX-License-Identifier: Apache-2.0
// How a product is cut into parts for threads and blocks for caches. Block sizes are constants of
// the instruction set, not of the machine at hand, because scratch must be a function of shape and
// target.
#include <algorithm>
#include <limits>

#include "base/integer.h"
#include "kernels/matmul/gemm.h"
#include "tensor/blocks.h"

namespace megalith::kernels::matmul {
namespace {

// In steps of four bytes. A block of packed B (k x n) stays in the second-level cache, 1 MiB or
// more on CPUs with AVX-512, 512 KiB on most others; a block of packed A streams through it from
// the third level.
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

/// k of one shard that pairs run through without a break.
std::vector<Range> runs_of(const Product& product, int shard) {
  const int64_t width = product.k / product.k_shards;
  if (product.cu_runs.empty()) return {{shard * width, (shard + 1) * width}};
  std::vector<Range> runs;
  for (size_t i = 0; i + 1 < product.cu_runs.size(); ++i)
    runs.push_back({product.cu_runs[i], product.cu_runs[i + 1]});
  return runs;
}

int64_t steps_of(PanelForm form, int64_t k) {
  if (form == PanelForm::floats) return k;
  return form == PanelForm::words ? ceil_div<int64_t>(k, 2) : round_up<int64_t>(k, 2);
}

/// Takes the steps of a shard from its runs, in order.
class Steps {
 public:
  Steps(PanelForm form, std::vector<Range> runs) : form_(form), runs_(std::move(runs)) {}
  int64_t count() const {
    int64_t steps = 0;
    for (const Range& run : runs_) steps += steps_of(form_, run.size());
    return steps;
  }
  /// The next `count` steps, to the end of `block`.
  void take(int64_t count, KBlock& block, std::vector<KRun>& runs) {
    while (count > 0) {
      Range& run = runs_[at_];
      if (run.empty()) {
        ++at_;
        continue;
      }
      const int64_t k = form_ == PanelForm::words ? 2 * count : count;
      const int64_t end = std::min(run.begin + k, run.end);
      const int64_t steps = steps_of(form_, end - run.begin);
      append({run.begin, end, block.steps}, block, runs);
      block.steps += steps;
      count -= steps;
      run.begin = end;
    }
  }

 private:
  void append(const KRun& next, KBlock& block, std::vector<KRun>& runs) const {
    if (block.end_run > block.first_run) {
      KRun& last = runs.back();
      const bool filled = form_ == PanelForm::floats || (last.end - last.begin) % 2 == 0;
      if (filled && last.end == next.begin) {
        last.end = next.end;
        return;
      }
    }
    runs.push_back(next);
    ++block.end_run;
  }

  PanelForm form_;
  std::vector<Range> runs_;
  size_t at_ = 0;
};

void cut_k(const Product& product, int64_t k_block, GemmPlan& plan) {
  const std::vector<int> merges = shard_merges(product.k_shards);
  // Pairs stay together: swapped ones are two steps. So do blocks, which are slow to take apart.
  const int64_t unit = is_plain(product.b.format) ? 2 : kBlockColumns;
  int depth = product.accumulate ? 1 : 0;
  for (int shard = 0; shard < product.k_shards; ++shard) {
    Steps rest(plan.form, runs_of(product, shard));
    const int64_t steps = rest.count(), pieces = std::max<int64_t>(1, ceil_div(steps, k_block));
    const int64_t piece = round_up<int64_t>(ceil_div(steps, pieces), unit);
    for (int64_t at = 0; at < steps; at += piece) {
      const int64_t count = std::min(piece, steps - at);
      const bool starts = at == 0 && !product.accumulate;
      if (plan.blocks.empty() || plan.blocks.back().steps + count > k_block) {
        const int first = static_cast<int>(plan.segments.size());
        const int run = static_cast<int>(plan.runs.size());
        plan.blocks.push_back({0, run, run, first, first, depth});
      }
      KBlock& block = plan.blocks.back();
      const int merged = at + count == steps ? merges[static_cast<size_t>(shard)] : 0;
      plan.segments.push_back({block.steps, block.steps + count, starts, merged});
      rest.take(count, block, plan.runs);
      ++block.end_segment;
      if (starts) ++depth;
      plan.num_levels = std::max(plan.num_levels, depth);
      depth -= merged;
    }
  }
  MEGA_CHECK_LE(plan.num_levels, kMaxLevels);
}

/// Most steps of a block, for scratch: whatever the runs of a weight gradient are.
int64_t most_steps(const Product& product, int64_t k_block, const GemmPlan& plan) {
  if (product.has_runs() && plan.form != PanelForm::floats)
    return std::min(k_block, plan.form == PanelForm::words ? product.k : 2 * product.k);
  int64_t most = 0;
  for (const KBlock& block : plan.blocks) most = std::max(most, block.steps);
  return most;
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

PanelForm panel_form(const Product& product, device::Isa isa) {
  const auto is_wide = [](DType dtype) { return dtype == DType::f32 || dtype == DType::f16; };
  if (is_wide(product.a.dtype) || is_wide(product.b.dtype)) return PanelForm::floats;
  return isa == device::Isa::avx512_bf16 ? PanelForm::words : PanelForm::swapped;
}

GemmPlan plan_gemm(const Product& product, const device::Target& target) {
  const TileSize tile = tile_size(target.isa);
  const BlockSize size = block_size(target.isa);
  GemmPlan plan;
  if (product.m == 0 || product.n == 0 || product.k == 0) return plan;
  plan.form = panel_form(product, target.isa);
  cut_k(product, size.k, plan);
  choose_grid(product, tile, target.num_threads, plan);
  plan.plain_f32 = product.epilogue.is_plain() && product.epilogue.out.dtype() == DType::f32;
  plan.direct = product.accumulate || (product.k_shards == 1 && plan.plain_f32);

  const int64_t part_m = round_up<int64_t>(ceil_div<int64_t>(product.m, plan.grid_m), tile.rows);
  const int64_t part_n =
      ceil_div(ceil_div<int64_t>(product.n, tile.columns), int64_t{plan.grid_n}) * tile.columns;
  const int64_t k_packed = most_steps(product, size.k, plan);

  plan.m_block = std::min(part_m, round_up<int64_t>(size.m, tile.rows));
  plan.n_block = std::min(part_n, round_up<int64_t>(size.n, tile.columns));
  plan.n_slab = part_n;
  if (plan.direct || (plan.blocks.size() == 1 && !product.has_runs())) {
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

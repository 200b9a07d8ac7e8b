// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/low_rank.h"

#include <algorithm>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/matmul/low_rank_lists.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {
namespace {

/// `rows`: of x or y.
void check_run(const LowRankRun& run, int64_t rows, const ConstView& h_N) {
  const ConstView& factor = run.factor;
  MEGA_CHECK(run.begin >= 0 && run.count >= 0 && run.begin + run.count <= rows,
             "rows {} + {} of {}", run.begin, run.count, rows);
  MEGA_CHECK(
      factor.shape().num_dims() == 2 && factor.dtype() == DType::f32 && factor.is_contiguous(),
      "a factor {} {}", factor.dtype(), factor.shape());
  MEGA_CHECK(run.first >= 0 && run.first + run.count * run.rank <= h_N.num_elements(),
             "{} rows of rank {} from {} of {}", run.count, run.rank, run.first,
             h_N.num_elements());
}

void check_blocks(const LowRankRun& run) {
  const ConstView& factor = run.factor;
  MEGA_CHECK(!run.blocks.empty() || factor.size(0) == run.rank, "{} of rank {}", factor.shape(),
             run.rank);
  int64_t end = 0;
  for (const auto& [columns, first, ranks] : run.blocks) {
    const auto [low, high] = std::minmax(first[0], first[1]);
    MEGA_CHECK(columns.begin >= end && !columns.empty() && columns.end <= factor.size(1) &&
                   ranks >= 0 && ranks <= factor.size(0) && low >= 0 && high + ranks <= run.rank,
               "columns {} to {} and {} ranks from {} and {} of {}", columns.begin, columns.end,
               ranks, first[0], first[1], run.rank);
    end = columns.end;
  }
}

void check_rows(const ConstView& rows, const ConstView& h_N, const LowRankRuns& runs) {
  MEGA_CHECK_EQ(rows.shape().num_dims(), 2);
  MEGA_CHECK(is_narrow(rows.dtype()), "rows of {}", rows.dtype());
  MEGA_CHECK(h_N.dtype() == DType::f32 && h_N.is_contiguous());
  MEGA_CHECK_LE(runs.count, kMostLowRankRuns);
}

/// Elements of a factor that are read.
int64_t elements_of(const LowRankRun& run, bool is_project) {
  if (is_project) return run.factor.num_elements();
  int64_t elements = 0;
  for_blocks(run, {0, run.factor.size(1)},
             [&](const LowRankBlock& block) { elements += block.columns.size() * block.ranks; });
  return elements;
}

device::Work work_of_runs(const LowRankRuns& runs, const ConstView& rows, bool is_project) {
  device::Work work;
  for (size_t i = 0; i < runs.count; ++i) {
    const LowRankRun& run = runs.run[i];
    const int64_t wide = run.count * rows.size(1) * bytes_of(rows.dtype());
    const int64_t h = run.count * run.rank * 4, elements = elements_of(run, is_project);
    work.flops += 2.0 * static_cast<double>(run.count) * static_cast<double>(elements);
    work.bytes_read += elements * 4 + wide + (is_project ? 0 : h);
    work.bytes_written += is_project ? h : wide;
  }
  return work;
}

constexpr Implementation<LowRankProject> kProjectList[] = {
    {"simd", [](const Exec&, const LowRankProject&) { return std::string_view(); },
     low_rank_project_simd},
    {"reference", [](const Exec&, const LowRankProject&) { return std::string_view(); },
     low_rank_project_reference},
};
constexpr Implementation<LowRankAdd> kAddList[] = {
    {"simd", [](const Exec&, const LowRankAdd&) { return std::string_view(); }, low_rank_add_simd},
    {"reference", [](const Exec&, const LowRankAdd&) { return std::string_view(); },
     low_rank_add_reference},
};

}  // namespace

void low_rank_project(Exec& exec, const LowRankProject& a) {
  check_rows(a.x_TI, a.h_N, a.runs);
  MEGA_CHECK(
      a.k_shards >= 1 && a.k_shards <= kMostLowRankShards && a.x_TI.size(1) % a.k_shards == 0,
      "{} elements in {} shards", a.x_TI.size(1), a.k_shards);
  for (size_t i = 0; i < a.runs.count; ++i) {
    const LowRankRun& run = a.runs.run[i];
    check_run(run, a.x_TI.size(0), a.h_N);
    MEGA_CHECK(run.factor.shape() == Shape({a.x_TI.size(1), run.rank}), "{} of {}, {}",
               run.factor.shape(), a.x_TI.size(1), run.rank);
  }
  run_chosen<LowRankProject>(exec, "low_rank_project", work_of_runs(a.runs, a.x_TI, true),
                             kProjectList, a);
}

void low_rank_add(Exec& exec, const LowRankAdd& a) {
  check_rows(a.y_TO, a.h_N, a.runs);
  for (size_t i = 0; i < a.runs.count; ++i) {
    check_run(a.runs.run[i], a.y_TO.size(0), a.h_N);
    MEGA_CHECK_EQ(a.runs.run[i].factor.size(1), a.y_TO.size(1));
    check_blocks(a.runs.run[i]);
  }
  run_chosen<LowRankAdd>(exec, "low_rank_add", work_of_runs(a.runs, a.y_TO, false), kAddList, a);
}

namespace {

/// tree over the sums of shards [lo, hi), each `width` long.
double low_rank_tree(const LowRankProject& a, const LowRankRun& run, int64_t row, int64_t r, int lo,
                     int hi) {
  if (hi - lo == 1) {
    const int64_t width = a.x_TI.size(1) / a.k_shards;
    double sum = 0;
    for (int64_t i = lo * width; i < (lo + 1) * width; ++i)
      sum += read_double(a.x_TI, run.begin + row, i) * read_double(run.factor, i, r);
    return sum;
  }
  const int middle = static_cast<int>(tree_middle(lo, hi));
  return low_rank_tree(a, run, row, r, lo, middle) + low_rank_tree(a, run, row, r, middle, hi);
}

}  // namespace

void low_rank_project_reference(Exec&, const LowRankProject& a) {
  for (size_t n = 0; n < a.runs.count; ++n) {
    const LowRankRun& run = a.runs.run[n];
    const int64_t rank = run.factor.size(1);
    float* const h = a.h_N.as<float>() + run.first;
    for (int64_t row = 0; row < run.count; ++row)
      for (int64_t r = 0; r < rank; ++r)
        h[row * rank + r] = static_cast<float>(low_rank_tree(a, run, row, r, 0, a.k_shards));
  }
}

void low_rank_add_reference(Exec&, const LowRankAdd& a) {
  for (size_t n = 0; n < a.runs.count; ++n) {
    const LowRankRun& run = a.runs.run[n];
    const auto add = [&](int64_t row, int64_t o, const LowRankBlock& block) {
      const float* const h = a.h_N.as<float>() + run.first + row * run.rank +
                             block.first[(o - block.columns.begin) % 2];
      double sum = 0;
      for (int64_t r = 0; r < block.ranks; ++r)
        sum += static_cast<double>(h[r]) * read_double(run.factor, r, o);
      const int64_t t = run.begin + row;
      write_double(a.y_TO, t, o,
                   read_double(a.y_TO, t, o) + static_cast<double>(static_cast<float>(sum)));
    };
    for_blocks(run, {0, a.y_TO.size(1)}, [&](const LowRankBlock& block) {
      for (int64_t row = 0; row < run.count; ++row)
        for (int64_t o = block.columns.begin; o < block.columns.end; ++o) add(row, o, block);
    });
  }
}

}  // namespace megalith::kernels

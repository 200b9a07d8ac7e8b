// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/low_rank.h"

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/matmul/low_rank_lists.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {
namespace {

/// `wide`: columns of x or y, rows or columns of the factor.
void check_run(const LowRankRun& run, int64_t rows, int64_t wide, int wide_dim,
               const ConstView& h_N) {
  const ConstView& factor = run.factor;
  MEGA_CHECK(run.begin >= 0 && run.count >= 0 && run.begin + run.count <= rows,
             "rows {} + {} of {}", run.begin, run.count, rows);
  MEGA_CHECK(factor.shape().num_dims() == 2 && factor.size(wide_dim) == wide &&
                 factor.dtype() == DType::f32 && factor.is_contiguous(),
             "a factor {} {} of {} columns", factor.dtype(), factor.shape(), wide);
  const int64_t rank = factor.size(1 - wide_dim);
  MEGA_CHECK(run.first >= 0 && run.first + run.count * rank <= h_N.num_elements(),
             "{} rows of rank {} from {} of {}", run.count, rank, run.first, h_N.num_elements());
}

void check_rows(const ConstView& rows, const ConstView& h_N, const LowRankRuns& runs) {
  MEGA_CHECK_EQ(rows.shape().num_dims(), 2);
  MEGA_CHECK(is_narrow(rows.dtype()), "rows of {}", rows.dtype());
  MEGA_CHECK(h_N.dtype() == DType::f32 && h_N.is_contiguous());
  MEGA_CHECK_LE(runs.count, kMostLowRankRuns);
}

device::Work work_of_runs(const LowRankRuns& runs, const ConstView& rows, bool is_project) {
  device::Work work;
  for (size_t i = 0; i < runs.count; ++i) {
    const LowRankRun& run = runs.run[i];
    const int64_t wide = run.count * rows.size(1) * bytes_of(rows.dtype());
    const int64_t h = run.count * run.factor.size(is_project ? 1 : 0) * 4;
    work.flops +=
        2.0 * static_cast<double>(run.count) * static_cast<double>(run.factor.num_elements());
    work.bytes_read += run.factor.bytes() + wide + (is_project ? 0 : h);
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
  for (size_t i = 0; i < a.runs.count; ++i)
    check_run(a.runs.run[i], a.x_TI.size(0), a.x_TI.size(1), 0, a.h_N);
  run_chosen<LowRankProject>(exec, "low_rank_project", work_of_runs(a.runs, a.x_TI, true),
                             kProjectList, a);
}

void low_rank_add(Exec& exec, const LowRankAdd& a) {
  check_rows(a.y_TO, a.h_N, a.runs);
  for (size_t i = 0; i < a.runs.count; ++i)
    check_run(a.runs.run[i], a.y_TO.size(0), a.y_TO.size(1), 1, a.h_N);
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
    const int64_t rank = run.factor.size(0);
    const float* const h = a.h_N.as<float>() + run.first;
    for (int64_t row = 0; row < run.count; ++row) {
      for (int64_t o = 0; o < a.y_TO.size(1); ++o) {
        double sum = 0;
        for (int64_t r = 0; r < rank; ++r)
          sum += static_cast<double>(h[row * rank + r]) * read_double(run.factor, r, o);
        const int64_t t = run.begin + row;
        write_double(a.y_TO, t, o,
                     read_double(a.y_TO, t, o) + static_cast<double>(static_cast<float>(sum)));
      }
    }
  }
}

}  // namespace megalith::kernels

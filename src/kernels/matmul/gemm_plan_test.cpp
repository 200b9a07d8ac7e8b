// SPDX-License-Identifier: Apache-2.0
// The plan is data: its laws are checked without multiplying anything.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/matmul/ceiling.h"
#include "kernels/matmul/gemm.h"

namespace megalith::kernels::matmul {
namespace {

Product product_of(int64_t m, int64_t n, int64_t k, int k_shards, bool accumulate = false) {
  Product product;
  product.m = m;
  product.n = n;
  product.k = k;
  product.k_shards = k_shards;
  product.accumulate = accumulate;
  product.epilogue.out = View(nullptr, DType::f32, Shape{m, n});
  return product;
}

TEST(GemmPlan, ShardsCombineInOneBalancedTree) {
  EXPECT_EQ(shard_merges(1), (std::vector<int>{0}));
  EXPECT_EQ(shard_merges(2), (std::vector<int>{0, 1}));
  // (0 + 1) + 2: mid = 0 + (3 + 1) / 2 = 2
  EXPECT_EQ(shard_merges(3), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(shard_merges(8), (std::vector<int>{0, 1, 0, 2, 0, 1, 0, 3}));
}

/// Runs cover k once and in order, their steps those of their block.
void expect_runs_cover(const GemmPlan& plan, int64_t k) {
  int64_t at = 0;
  for (const KBlock& block : plan.blocks) {
    int64_t step = 0;
    for (int r = block.first_run; r < block.end_run; ++r) {
      const KRun& run = plan.runs[static_cast<size_t>(r)];
      EXPECT_EQ(run.begin, at);
      EXPECT_EQ(run.step, step);
      const int64_t size = run.end - run.begin;
      ASSERT_GT(size, 0);
      step += plan.form == PanelForm::floats  ? size
              : plan.form == PanelForm::words ? (size + 1) / 2
                                              : (size + 1) / 2 * 2;
      at = run.end;
    }
    EXPECT_EQ(step, block.steps);
  }
  EXPECT_EQ(at, k);
}

/// Segments cover the steps of their block, and one sum is left.
void expect_segments_cover(const GemmPlan& plan, bool accumulate) {
  int depth = accumulate ? 1 : 0;
  size_t segment = 0;
  for (const KBlock& block : plan.blocks) {
    EXPECT_EQ(block.depth, depth);
    EXPECT_EQ(block.first_segment, static_cast<int>(segment));
    int64_t step = 0;
    for (; segment < static_cast<size_t>(block.end_segment); ++segment) {
      EXPECT_EQ(plan.segments[segment].begin, step);
      step = plan.segments[segment].end;
      if (plan.segments[segment].starts_shard) ++depth;
      EXPECT_LE(depth, plan.num_levels);
      depth -= plan.segments[segment].merges;
      ASSERT_GE(depth, 1);
    }
    EXPECT_EQ(step, block.steps);
  }
  EXPECT_EQ(segment, plan.segments.size());
  EXPECT_EQ(depth, 1);
}

struct Form {
  device::Isa isa;
  DType dtype;
  PanelForm form;
};
constexpr Form kForms[] = {{device::Isa::avx2, DType::f32, PanelForm::floats},
                           {device::Isa::avx512, DType::f32, PanelForm::floats},
                           {device::Isa::avx512_bf16, DType::f16, PanelForm::floats},
                           {device::Isa::avx2, DType::bf16, PanelForm::swapped},
                           {device::Isa::avx512, DType::bf16, PanelForm::swapped},
                           {device::Isa::avx512_bf16, DType::bf16, PanelForm::words}};

TEST(GemmPlan, RunsAndSegmentsCoverKOnceAndTheStackEndsWithOneSum) {
  for (const Form& form : kForms) {
    for (const bool accumulate : {false, true}) {
      for (const int64_t k : {1, 24, 768, 769, 2304, 5301, 50304}) {
        for (const int k_shards : {1, 2, 3, 8}) {
          if (k % k_shards != 0 || (accumulate && k_shards > 1)) continue;
          Product product = product_of(100, 100, k, k_shards, accumulate);
          product.a.dtype = product.b.dtype = form.dtype;
          const GemmPlan plan = plan_gemm(product, {.isa = form.isa});
          EXPECT_EQ(plan.form, form.form);
          expect_runs_cover(plan, k);
          expect_segments_cover(plan, accumulate);
        }
      }
    }
  }
}

TEST(GemmPlan, PairsBeginAnewWithEveryRunAndScratchDoesNotKnowThem) {
  std::vector<int32_t> odd{0}, even{0};
  while (odd.back() < 4000) odd.push_back(odd.back() + 1 + odd.back() % 7 * 5);
  odd.push_back(odd.back());  // an empty one
  even.push_back(odd.back());
  for (const Form& form : kForms) {
    Product product = product_of(100, 100, odd.back(), 1, true);
    product.a.dtype = product.b.dtype = form.dtype;
    product.cu_runs = odd;
    const GemmPlan plan = plan_gemm(product, {.isa = form.isa});
    expect_runs_cover(plan, product.k);
    expect_segments_cover(plan, true);
    if (form.form != PanelForm::floats) {
      EXPECT_GT(plan.runs.size(), odd.size() / 3);
    }
    product.cu_runs = even;
    EXPECT_EQ(plan_gemm(product, {.isa = form.isa}).scratch_bytes, plan.scratch_bytes);
  }
}

TEST(GemmPlan, ScratchStaysBoundedForAnyShape) {
  for (const int64_t m : {1, 512, 4096, 50304})
    for (const int64_t n : {1, 768, 50304})
      for (const int64_t k : {768, 50304}) {
        const GemmPlan plan =
            plan_gemm(product_of(m, n, k, 8), {.isa = device::Isa::avx512, .num_threads = 2});
        EXPECT_LE(plan.thread_bytes, 16 << 20) << m << " " << n << " " << k;
      }
}

TEST(GemmPlan, OfTwoEqualCutsTheOneThatPacksLessOfTheTransposedOperandIsTaken) {
  for (const int64_t size : {256, 1024, 2048}) {
    Product product = product_of(size, size, 256, 1);
    product.a.k_contiguous = true;
    const GemmPlan plan = plan_gemm(product, {.isa = device::Isa::avx512, .num_threads = 2});
    EXPECT_EQ(plan.grid_m, 2);
    EXPECT_EQ(plan.grid_n, 1);
  }
}

TEST(GemmPlan, ManyThreadsGetNoEmptyGridWhereThereIsWork) {
  const GemmPlan plan =
      plan_gemm(product_of(4096, 768, 768, 1), {.isa = device::Isa::avx512, .num_threads = 12});
  EXPECT_EQ(plan.grid_m * plan.grid_n, 12);
  EXPECT_GT(plan.grid_n, 1);
}

TEST(GemmCeiling, IsMeasuredForBothTypes) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  EXPECT_GT(gemm_ceiling(exec, DType::f32, 0.01), 1e9);
  EXPECT_GT(gemm_ceiling(exec, DType::bf16, 0.01), 1e9);
  EXPECT_EQ(exec.workspace.in_use(), 0);
}

}  // namespace
}  // namespace megalith::kernels::matmul

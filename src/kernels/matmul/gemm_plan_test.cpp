// SPDX-License-Identifier: Apache-2.0
// The plan is data: its laws are checked without multiplying anything.
#include <gtest/gtest.h>

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

TEST(GemmPlan, SegmentsCoverKOnceAndTheStackEndsWithOneSum) {
  for (const device::Isa isa : {device::Isa::avx2, device::Isa::avx512}) {
    for (const bool accumulate : {false, true}) {
      for (const int64_t k : {1, 24, 768, 769, 2304, 50304}) {
        for (const int k_shards : {1, 2, 3, 8}) {
          if (k % k_shards != 0 || (accumulate && k_shards > 1)) continue;
          const GemmPlan plan =
              plan_gemm(product_of(100, 100, k, k_shards, accumulate), {.isa = isa});
          int64_t at = 0;
          int depth = accumulate ? 1 : 0;
          size_t segment = 0;
          for (const KBlock& block : plan.blocks) {
            EXPECT_EQ(block.begin, at);
            EXPECT_EQ(block.depth, depth);
            EXPECT_EQ(block.first_segment, static_cast<int>(segment));
            for (; segment < static_cast<size_t>(block.end_segment); ++segment) {
              EXPECT_EQ(plan.segments[segment].begin, at);
              at = plan.segments[segment].end;
              if (plan.segments[segment].starts_shard) ++depth;
              EXPECT_LE(depth, plan.num_levels);
              depth -= plan.segments[segment].merges;
              ASSERT_GE(depth, 1);
            }
            EXPECT_EQ(block.end, at);
          }
          EXPECT_EQ(at, k);
          EXPECT_EQ(depth, 1);
        }
      }
    }
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

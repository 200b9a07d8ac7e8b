// SPDX-License-Identifier: Apache-2.0
// Gradients of shared key/value heads as trees over runs of query heads: the calls of ranks that
// hold some runs each add up to the bits of one call over all.
#include <gtest/gtest.h>

#include "kernels/attention/attention_bounds.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::kernels {
namespace {

using testing::expect_same_bits;
using testing::TestTensor;

/// `count` heads of x from `begin` on, all of one group.
template <typename Byte>
BasicHeadsView<Byte> some_heads(BasicHeadsView<Byte> x, int64_t begin, int64_t count) {
  x.data = x.num_rows > 0 ? x.at(0, begin) : x.data;
  x.num_heads = count;
  return x;
}

/// Backward of one key/value head as `ranks` ranks run it, each with its share of the query heads;
/// their dk and dv in f32, rank after rank.
struct Ranks {
  TestTensor dk, dv, dq;

  Ranks(AttentionData& data, device::Device& device, int64_t group, int64_t ranks)
      : dk(DType::f32, Shape{ranks, data.num_rows * data.shape.head_size}),
        dv(dk),
        dq(data.dtype, data.y.shape()) {
    const AttentionCase& c = data.shape;
    const int64_t q_per_kv = c.num_heads / c.num_kv_heads, share = q_per_kv / ranks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t head = group * q_per_kv + rank * share;
      AttentionBackward a = data.backward_arguments();
      a.q_TND = some_heads(a.q_TND, head, share);
      a.k_TKD = some_heads(a.k_TKD, group, 1);
      a.v_TKD = some_heads(a.v_TKD, group, 1);
      a.y_TND = some_heads(a.y_TND, head, share);
      a.dy_TND = some_heads(a.dy_TND, head, share);
      a.lse_NT = a.lse_NT.rows(head, share);
      a.dq_TND = some_heads(heads(dq.view(), c.num_heads, c.head_size), head, share);
      const auto sums_of = [&](TestTensor& sums) {
        const View own(reinterpret_cast<std::byte*>(sums.view().row<float>(rank)), DType::f32,
                       Shape{data.num_rows, c.head_size});
        return heads(own, 1, c.head_size);
      };
      a.dk_TKD = sums_of(dk);
      a.dv_TKD = sums_of(dv);
      a.dropout.head_begin += head;
      a.kv_partials /= ranks;
      Exec exec(device);
      attention_backward(exec, a);
    }
  }
};

/// The tree over ranks, rounded to `dtype`.
TestTensor tree_of(device::Device& device, const TestTensor& x_PN, DType dtype) {
  TestTensor sum(DType::f32, Shape{x_PN.columns()});
  Exec exec(device);
  tree_sum(exec, {.x_PN = x_PN.view(), .y_N = sum.view()});
  return sum.as(dtype);
}

void expect_ranks_add_up(const AttentionCase& shape, DType dtype, int64_t ranks) {
  const auto device = device::make_cpu_device(2);
  AttentionData data(shape, dtype);
  data.forward(*device);
  data.backward(*device);
  const int64_t size = shape.head_size, q_per_kv = shape.num_heads / shape.num_kv_heads;
  for (int64_t group = 0; group < shape.num_kv_heads; ++group) {
    const Ranks apart(data, *device, group, ranks);
    const TestTensor dk = tree_of(*device, apart.dk, dtype);
    const TestTensor dv = tree_of(*device, apart.dv, dtype);
    const int64_t key = (group * (q_per_kv + 2) + q_per_kv) * size;
    for (int64_t t = 0; t < data.num_rows; ++t) {
      for (int64_t d = 0; d < size; ++d) {
        ASSERT_EQ(dk.at(t * size + d), data.dqkv.at(t, key + d)) << shape.name << " " << t;
        ASSERT_EQ(dv.at(t * size + d), data.dqkv.at(t, key + size + d)) << shape.name << " " << t;
      }
      for (int64_t c = 0; c < q_per_kv * size; ++c) {
        ASSERT_EQ(apart.dq.at(t, group * q_per_kv * size + c),
                  data.dqkv.at(t, group * (q_per_kv + 2) * size + c));
      }
    }
  }
}

AttentionCase in_runs(int64_t num_heads, int64_t num_kv_heads, int64_t partials) {
  AttentionCase shape{fmt::format("{} of {} in {}", num_heads, num_kv_heads, partials),
                      {90, 1, 70},
                      num_heads,
                      num_kv_heads,
                      20,
                      true,
                      0.1f};
  shape.kv_partials = partials;
  return shape;
}

TEST(AttentionPartials, RanksThatHoldOneRunEachAddUp) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    expect_ranks_add_up(in_runs(8, 1, 2), dtype, 2);
    expect_ranks_add_up(in_runs(8, 1, 8), dtype, 8);
    expect_ranks_add_up(in_runs(12, 2, 3), dtype, 3);
    expect_ranks_add_up(in_runs(12, 2, 6), dtype, 6);
    expect_ranks_add_up(in_runs(7, 1, 7), dtype, 7);
    expect_ranks_add_up(in_runs(3, 3, 1), dtype, 1);
  }
}

TEST(AttentionPartials, RanksThatHoldASubtreeEachAddUp) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    expect_ranks_add_up(in_runs(8, 1, 8), dtype, 2);
    expect_ranks_add_up(in_runs(8, 1, 4), dtype, 2);
    expect_ranks_add_up(in_runs(24, 2, 12), dtype, 2);
  }
}

TEST(AttentionPartials, SumsMayStayUnrounded) {
  const auto device = device::make_cpu_device(2);
  AttentionData data(in_runs(6, 2, 3), DType::bf16);
  data.forward(*device);
  data.backward(*device);
  TestTensor dkv(DType::f32, data.dqkv.shape());
  AttentionBackward a = data.backward_arguments();
  a.dk_TKD = keys(dkv.view(), 6, 2, 20);
  a.dv_TKD = values(dkv.view(), 6, 2, 20);
  const double unit = testing::unit_roundoff(DType::bf16);
  const double relative = RelativeErrors(data, unit, unit).gradient;
  const AttentionData magnitudes = gradient_magnitudes(data, *device);
  for (const std::string_view entry : {"", "reference"}) {
    Exec exec(*device);
    exec.only = entry;
    attention_backward(exec, a);
    for (int64_t t = 0; t < data.num_rows; ++t) {
      for (int64_t c = 0; c < dkv.columns(); ++c) {
        if (c / 20 % 5 < 3) continue;
        const double rounded = to_f32(to_bf16(static_cast<float>(dkv.at(t, c))));
        if (entry.empty()) {
          ASSERT_EQ(rounded, data.dqkv.at(t, c));
        } else {
          ASSERT_NEAR(rounded, data.dqkv.at(t, c),
                      1.02 * relative * magnitudes.dqkv.at(t, c) + 2.04 * unit * std::abs(rounded));
        }
      }
    }
  }
}

TEST(AttentionPartials, RunsAreSummedApart) {
  // Tree and chain differ in some bit: else the tests above would prove nothing.
  const auto device = device::make_cpu_device(1);
  AttentionData chain(in_runs(8, 1, 1), DType::f32), tree(in_runs(8, 1, 8), DType::f32);
  for (AttentionData* data : {&chain, &tree}) {
    data->forward(*device);
    data->backward(*device);
  }
  expect_same_bits(tree.y, chain.y, "y");
  int64_t different = 0;
  for (int64_t i = 0; i < chain.dqkv.size(); ++i) {
    different += chain.dqkv.at(i) != tree.dqkv.at(i) ? 1 : 0;
    ASSERT_NEAR(chain.dqkv.at(i), tree.dqkv.at(i), 1e-4);
  }
  EXPECT_GT(different, chain.num_rows);
}

TEST(AttentionPartials, RefusesRunsThatDoNotFit) {
  const auto device = device::make_cpu_device(1);
  for (const int64_t partials : {0, 4, 12}) {
    AttentionData data(in_runs(6, 1, partials), DType::f32);
    data.forward(*device);
    EXPECT_THROW(data.backward(*device), InternalError);
  }
  AttentionData data(in_runs(6, 1, 2), DType::f32);
  data.forward(*device);
  AttentionBackward a = data.backward_arguments();
  a.dk_TKD.dtype = DType::bf16;
  Exec exec(*device);
  EXPECT_THROW(attention_backward(exec, a), InternalError);
}

}  // namespace
}  // namespace megalith::kernels

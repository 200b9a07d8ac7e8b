// SPDX-License-Identifier: Apache-2.0
// Exact products of the size that training multiplies: several blocks of k, of rows and of columns,
// and more than one slab of unfinished sums, all at once. Elements are too many for the references
// of linear_test.cpp: all of them are compared between instruction sets and numbers of threads
// (which block them differently), some with the stated chain, and products of integers with a
// vector's product (Freivalds 1979).
#include "base/integer.h"
#include "kernels/matmul/linear.h"
#include "kernels/matmul/linear_layer.h"
#include "kernels/matmul/linear_products.h"
#include "kernels/matmul/linear_stated.h"

namespace megalith::kernels {
namespace {

using namespace matmul;  // NOLINT: the layer and its cases
using testing::TestTensor;

struct LargeCase {
  LinearCase size;
  std::vector<Operation> operations;
};
/// The weight gradient accumulates in place: no slabs, but blocks of all three kinds.
const LargeCase kLarge[] = {
    {{1300, 1700, 700, 4}, {Operation::forward}},
    {{1701, 700, 1700, 4}, {Operation::backward_input, Operation::backward_weight}},
    {{1300, 3072, 768, 4}, {Operation::forward}},
};
constexpr Types kTypesHere[] = {{DType::f32, DType::f32, DType::f32},
                                {DType::bf16, DType::bf16, DType::f32}};

GemmPlan plan_of(Layer& l, Operation operation, const device::Target& target) {
  if (operation == Operation::forward) return plan_gemm(product_of(l.forward()), target);
  if (operation == Operation::backward_input)
    return plan_gemm(product_of(l.backward_input()), target);
  return plan_gemm(product_of(l.backward_weight()), target);
}

/// One thread, and as many as cut rows and columns otherwise, on each instruction set.
std::vector<testing::TestDevice> devices() {
  std::vector<testing::TestDevice> some;
  for (testing::TestDevice& on : testing::test_devices()) {
    if (on.device->target().num_threads != 2) some.push_back(std::move(on));
  }
  return some;
}

TEST(LinearBlocks, AreSeveralOfEveryKind) {
  for (const device::Isa isa : {device::Isa::avx2, device::Isa::avx512, device::Isa::avx512_bf16}) {
    for (const Types& types : kTypesHere) {
      for (const LargeCase& c : kLarge) {
        Layer l(c.size, types);
        for (const Operation operation : c.operations) {
          const GemmPlan plan = plan_of(l, operation, {.isa = isa, .num_threads = 1});
          const TestTensor& result = l.result(operation);
          EXPECT_GT(plan.blocks.size(), 1u) << c.size.name();
          EXPECT_GT(plan.n_slab, plan.n_block) << c.size.name();
          EXPECT_GT(result.rows(), plan.m_block) << c.size.name();
          if (operation == Operation::backward_weight) {
            EXPECT_TRUE(plan.direct);
            continue;
          }
          EXPECT_GT(result.columns(), plan.n_slab) << c.size.name();
          EXPECT_GT(plan.num_levels, 2) << c.size.name();
        }
      }
    }
  }
}

/// Edges of blocks of rows, the last row, and some between.
bool is_sampled(int64_t row, int64_t num_rows) {
  const bool edge = row == 0 || row == 1175 || row == 1176 || row == 1199 || row == 1200;
  return edge || row + 1 == num_rows || row % 233 == 97;
}

/// The result, equal on all devices.
TestTensor result_of(const Layer& input, Operation operation, const Types& types,
                     std::span<const testing::TestDevice> all) {
  std::optional<TestTensor> first;
  for (const testing::TestDevice& on : all) {
    Layer actual = input;
    actual.run(*on.device, operation, "exact");
    if (!first) first = actual.result(operation);
    testing::expect_same_bits(actual.result(operation), *first,
                              describe(input.c, types, operation, on.name));
  }
  return *first;
}

TEST(LinearBlocks, EveryElementIsTheStatedChainOnEveryDevice) {
  const std::vector<testing::TestDevice> all = devices();
  for (const LargeCase& c : kLarge) {
    for (const Types& types : kTypesHere) {
      Layer input(c.size, types);
      input.fill_normal();
      input.cu_runs = {0, 3, 800, static_cast<int32_t>(c.size.rows)};
      for (const Operation operation : c.operations) {
        const TestTensor result = result_of(input, operation, types, all);
        const StatedElement stated(input, operation, c.size.k_shards);
        for (int64_t row = 0; row < result.rows(); ++row) {
          if (!is_sampled(row, result.rows())) continue;
          for (int64_t column = 0; column < result.columns(); ++column) {
            ASSERT_EQ(static_cast<float>(result.at(row, column)), stated(row, column))
                << describe(c.size, types, operation, "") << " " << row << " " << column;
          }
        }
      }
    }
  }
}

/// sum_c m(row, c) v(c), and sum_r v(r) m(r, column): integers, exact in double.
std::vector<double> times_vector(const TestTensor& m, const std::vector<double>& v) {
  std::vector<double> product(static_cast<size_t>(m.rows()), 0.0);
  for (int64_t i = 0; i < m.size(); ++i)
    product[static_cast<size_t>(i / m.columns())] +=
        m.at(i) * v[static_cast<size_t>(i % m.columns())];
  return product;
}
std::vector<double> vector_times(const std::vector<double>& v, const TestTensor& m) {
  std::vector<double> product(static_cast<size_t>(m.columns()), 0.0);
  for (int64_t i = 0; i < m.size(); ++i)
    product[static_cast<size_t>(i % m.columns())] +=
        v[static_cast<size_t>(i / m.columns())] * m.at(i);
  return product;
}
std::vector<double> some_integers(int64_t n) {
  std::vector<double> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = 1 + philox(7, i, 0)[0] % 1000;
  return v;
}

/// result v by way of the operands: x (w^T v), dy (w v), dw v + dy^T (x v).
std::vector<double> expected_product(const Layer& before, Operation operation,
                                     const std::vector<double>& v) {
  if (operation == Operation::forward) return times_vector(before.x, vector_times(v, before.w));
  if (operation == Operation::backward_input)
    return times_vector(before.dy, times_vector(before.w, v));
  std::vector<double> sum = times_vector(before.dw, v);
  const std::vector<double> added = vector_times(times_vector(before.x, v), before.dy);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
  return sum;
}

TEST(LinearBlocks, ProductsOfIntegersAreExact) {
  const std::vector<testing::TestDevice> all = devices();
  for (const LargeCase& c : kLarge) {
    Layer input(c.size, kTypesHere[1]);
    input.fill_exact();
    for (const Operation operation : c.operations) {
      const std::vector<double> v = some_integers(input.result(operation).columns());
      const std::vector<double> expected = expected_product(input, operation, v);
      for (const testing::TestDevice& on : all) {
        Layer actual = input;
        actual.run(*on.device, operation, "exact");
        ASSERT_EQ(times_vector(actual.result(operation), v), expected)
            << describe(c.size, kTypesHere[1], operation, on.name);
      }
    }
  }
}

}  // namespace
}  // namespace megalith::kernels

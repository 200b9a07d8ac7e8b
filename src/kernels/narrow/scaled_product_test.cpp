// SPDX-License-Identifier: Apache-2.0
// tests/golden/tensor_core_test.cpp compares with what cuBLAS gave on a GPU.
#include "kernels/narrow/scaled_product.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "base/error.h"
#include "kernels/elementary/kernel_testing.h"
#include "math/bf16_chain.h"
#include "math/tensor_core.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

constexpr float kScaleA = 0.3f, kScaleB = 0.7f;

struct Operands {
  TestTensor a, b, a_scale{DType::f32, Shape{1}}, b_scale{DType::f32, Shape{1}};

  Operands(DType a_type, DType b_type, int64_t m, int64_t n, int64_t k)
      : a(a_type, Shape{m, k}), b(b_type, Shape{n, k}) {
    a.fill_normal(1, 8);
    b.fill_normal(2);
    a_scale.set(0, static_cast<double>(kScaleA));
    b_scale.set(0, static_cast<double>(kScaleB));
  }
  std::vector<float> row(const TestTensor& of, int64_t i) const {
    std::vector<float> values;
    for (int64_t k = 0; k < of.columns(); ++k) values.push_back(static_cast<float>(of.at(i, k)));
    return values;
  }
};

/// Element i of t by a rule; codes that are not finite in kind 2 alone.
void set_code(TestTensor& t, int64_t i, int kind) {
  const auto word = static_cast<uint32_t>(philox(11, static_cast<uint64_t>(i), 0)[0]);
  const uint32_t least = t.dtype() == DType::f8_e4m3 ? 0x83u : 0x81u;
  uint32_t code = kind == 1 ? word & least : word & 0xffu;
  const bool finite =
      t.dtype() == DType::f8_e4m3 ? (code & 0x7fu) != 0x7fu : (code & 0x7cu) != 0x7cu;
  if (!finite && (kind < 2 || i % 40 != 0)) code = 0x38;
  t.view().data()[i % t.size()] = static_cast<std::byte>(code);
}

TestTensor product(Exec& exec, const Operands& o, DType y_type, Accumulate accumulate,
                   int k_shards = 1) {
  TestTensor y(y_type, Shape{o.a.rows(), o.b.rows()});
  scaled_product(exec, {o.a, o.b, o.a_scale, o.b_scale, y, accumulate, k_shards});
  return y;
}

float bf16_chain(const std::vector<float>& a, const std::vector<float>& b, size_t begin,
                 size_t end) {
  float sum = 0;
  for (size_t k = begin; k < end; k += 2) {
    const bool whole = k + 1 < end;
    sum = bf16_chain_step(a[k], b[k], whole ? a[k + 1] : 0, whole ? b[k + 1] : 0, sum);
  }
  return sum;
}

TEST(ScaledProduct, ExactIsTheBf16ChainTimesBothScalesAtOnce) {
  for (const auto& [a_type, b_type] :
       {std::pair(DType::f8_e4m3, DType::f8_e4m3), std::pair(DType::f8_e5m2, DType::f8_e4m3)}) {
    const Operands o(a_type, b_type, 5, 19, 74);
    for (const int shards : {1, 2}) {
      const auto run = [&](Exec& exec) {
        return Outputs{product(exec, o, DType::f32, Accumulate::exact, shards),
                       product(exec, o, DType::bf16, Accumulate::exact, shards)};
      };
      const Outputs y = testing::run_everywhere(run, "exact");
      for (int64_t m = 0; m < 5; ++m) {
        for (int64_t n = 0; n < 19; ++n) {
          const std::vector<float> a = o.row(o.a, m), b = o.row(o.b, n);
          const float sum = shards == 1 ? bf16_chain(a, b, 0, 74)
                                        : bf16_chain(a, b, 0, 37) + bf16_chain(a, b, 37, 74);
          const float expected = sum * (kScaleA * kScaleB);
          ASSERT_EQ(y[0].at(m, n), static_cast<double>(expected));
          ASSERT_EQ(y[1].at(m, n), static_cast<double>(to_f32(to_bf16(expected))));
        }
      }
    }
  }
}

TEST(ScaledProduct, HopperIsTheChainOfATensorCore) {
  const Operands o(DType::f8_e4m3, DType::f8_e5m2, 3, 7, 300);
  const auto run = [&](Exec& exec) {
    return Outputs{product(exec, o, DType::f32, Accumulate::hopper),
                   product(exec, o, DType::f32, Accumulate::hopper_promoted)};
  };
  const Outputs y = testing::run_everywhere(run, "hopper");
  int64_t differ = 0;
  for (int64_t m = 0; m < 3; ++m) {
    for (int64_t n = 0; n < 7; ++n) {
      const std::vector<float> a = o.row(o.a, m), b = o.row(o.b, n);
      const float fast = core_dot(a, kCoreE4m3, b, kCoreE5m2, kHopper8);
      const float promoted = core_dot(a, kCoreE4m3, b, kCoreE5m2, kHopper8, kHopperPromote);
      ASSERT_EQ(y[0].at(m, n), static_cast<double>(fast * (kScaleA * kScaleB)));
      ASSERT_EQ(y[1].at(m, n), static_cast<double>(promoted * (kScaleA * kScaleB)));
      differ += fast != promoted ? 1 : 0;
    }
  }
  EXPECT_GT(differ, 10);  // they are two arithmetics
}

TEST(ScaledProduct, HopperByVectorsEqualsTheReference) {
  for (const auto& [m, n, k] : {std::tuple(1, 1, 1), std::tuple(3, 17, 33), std::tuple(2, 40, 700),
                                std::tuple(4, 16, 1024), std::tuple(2, 5, 640)}) {
    for (const auto& [a_type, b_type] :
         {std::pair(DType::f8_e4m3, DType::f8_e4m3), std::pair(DType::f8_e5m2, DType::f8_e4m3),
          std::pair(DType::f8_e5m2, DType::f8_e5m2)}) {
      Operands o(a_type, b_type, m, n, k);
      const auto run = [&](Exec& exec) {
        return Outputs{product(exec, o, DType::f32, Accumulate::hopper),
                       product(exec, o, DType::f32, Accumulate::hopper_promoted)};
      };
      // Any finite codes, then zeros of both signs and the least numbers, then NaN among them.
      for (const int kind : {0, 1, 2}) {
        for (int64_t i = 0; i < o.a.size(); ++i) set_code(o.a, i, kind);
        for (int64_t i = 0; i < o.b.size(); ++i) set_code(o.b, i + 7, kind);
        const std::string what =
            fmt::format("{} x {}, {} {} {}, kind {}", a_type, b_type, m, n, k, kind);
        testing::expect_same_bits(testing::run_everywhere(run, what), testing::run_reference(run),
                                  what);
      }
    }
  }
}

TEST(ScaledProduct, RefusesWhatDoesNotFit) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  const Operands o(DType::f8_e4m3, DType::f8_e4m3, 2, 3, 8),
      other(DType::f8_e4m3, DType::bf16, 2, 3, 8);
  TestTensor y(DType::f32, Shape{3, 2});
  EXPECT_THROW(scaled_product(exec, {o.a, o.b, o.a_scale, o.b_scale, y}), InternalError);
  EXPECT_THROW(product(exec, other, DType::f32, Accumulate::exact), InternalError);
}

}  // namespace
}  // namespace megalith::kernels

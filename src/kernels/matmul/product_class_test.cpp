// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/product_class.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"

namespace megalith::kernels {
namespace {

TEST(ProductClass, NumbersNameEachClassOnce) {
  std::set<std::string> names;
  for (int i = 0; i < kNumProductClasses; ++i) {
    EXPECT_EQ(index_of(product_class(i)), i);
    names.insert(name_of(product_class(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumProductClasses));
}

TEST(ProductClass, TheLibraryMustBeClearlyFaster) {
  ProductRates rates;
  rates[3] = {100, 104};
  rates[4] = {100, 106};
  EXPECT_EQ(library_products(rates), uint32_t{1} << 4);
}

TEST(ProductClass, MeasuredRatesAreThoseOfAMachine) {
  for (const ProductRate& rate :
       measure_products({device::DeviceKind::cpu, device::detect_isa(), 1}, 0.05)) {
    EXPECT_GT(rate.exact, 1e8);
    // 0 where oneDNN has no bf16 for this processor.
    EXPECT_TRUE(rate.library == 0 || rate.library > 1e8) << rate.library;
  }
}

/// What a fast product of two f32 or bf16 matrices would try first on this target.
std::string_view first_choice(uint32_t library_products, DType dtype, int64_t rows) {
  const device::Target target{device::DeviceKind::cpu, device::detect_isa(), 1, library_products};
  const auto device = device::make_trace_device(target);
  Exec exec(*device, Numerics::fast);
  const device::Tensor x = exec.workspace.tensor(dtype, Shape{rows, 512});
  const device::Tensor w = exec.workspace.tensor(dtype, Shape{1024, 512});
  const device::Tensor y = exec.workspace.tensor(dtype, Shape{rows, 1024});
  return linear_implementations(exec, LinearForward{.x_TI = x, .w_OI = w, .y_TO = y}).front();
}

TEST(ProductClass, FastGoesByTheMeasurement) {
  const auto bit = [](const ProductClass& c) { return uint32_t{1} << index_of(c); };
  EXPECT_EQ(first_choice(0, DType::f32, 4096), "exact");
  EXPECT_EQ(first_choice(0, DType::bf16, 4096), "exact");
  EXPECT_EQ(first_choice(bit({ProductKind::forward, false, true}), DType::f32, 4096), "onednn");
  EXPECT_EQ(first_choice(bit({ProductKind::forward, false, true}), DType::f32, 256), "exact");
  EXPECT_EQ(first_choice(bit({ProductKind::forward, true, false}), DType::bf16, 256),
            library_multiplies(DType::bf16) ? "onednn" : "exact");
  EXPECT_EQ(first_choice(bit({ProductKind::backward_input, false, true}), DType::f32, 4096),
            "exact");
  // A few rows: the weights are read once, whoever multiplies; nothing is packed.
  EXPECT_EQ(first_choice(0xfff, DType::bf16, 1),
            device::detect_isa() == device::Isa::avx512_bf16 ? "dot" : "exact");
  EXPECT_EQ(first_choice(0xfff, DType::f32, 1), "exact");
}

}  // namespace
}  // namespace megalith::kernels

// SPDX-License-Identifier: Apache-2.0
// The library behind `fast` numerics: when it is asked, and how.
#include "kernels/matmul/linear_layer.h"

namespace megalith::kernels {
namespace {

using namespace matmul;  // NOLINT: the layer and its cases

/// A bf16 result of so many rows that the library is called several times for it.
TEST(Linear, TheLibraryTakesManyRowsInPieces) {
  constexpr LinearCase kMany{2300, 24, 1030}, kTwice{4600, 24, 1030};
  const Types bf16{DType::bf16, DType::bf16, DType::bf16};
  if (!onednn_takes(bf16)) GTEST_SKIP() << "no AVX-512 here";
  Layer actual(kMany, bf16);
  actual.fill_exact();
  Layer expected = actual;
  for (const int threads : {1, 2, 3}) {
    const auto on = device::make_cpu_device(threads);
    for (const bool full : {false, true}) {  // with bias, activation and what it saves, or plain
      const auto run = [&](Layer& l, std::string_view entry, Operation operation) {
        Exec exec(*on, Numerics::fast);
        exec.only = entry;
        LinearForward f = l.forward();
        LinearBackwardInput b = l.backward_input();
        if (full) {
          f.bias_O = l.bias, f.pre_activation_TO = l.u, f.activation = Activation::gelu_erf;
          b.pre_activation_TI = l.v, b.activation = Activation::gelu_erf;
        }
        operation == Operation::forward ? linear_forward(exec, f) : linear_backward_input(exec, b);
      };
      for (const Operation operation : {Operation::forward, Operation::backward_input}) {
        run(actual, "onednn", operation);
        run(expected, "exact", operation);
        testing::expect_same_bits(actual.result(operation), expected.result(operation), "pieces");
        actual.expect_gaps_untouched();
      }
      testing::expect_same_bits(actual.u, expected.u, "pre-activation");
    }
    Layer twice(kTwice, bf16);
    const auto traced = device::make_trace_device(on->target());
    Exec exec(*traced, Numerics::fast);
    exec.only = "onednn";
    linear_forward(exec, twice.forward());
    EXPECT_LE(exec.workspace.high_water(), threads * (int64_t{5} << 20))
        << "the sums of all rows take 18 MiB";
  }
}

TEST(Linear, ExactNumericsNeverSeesALibrary) {
  const auto device = device::make_cpu_device(1);
  Layer l({4, 6, 5}, kTypes[1]);
  EXPECT_EQ(linear_implementations(Exec(*device, Numerics::exact), l.forward()),
            (std::vector<std::string_view>{"exact", "reference"}));
  for (const std::string_view name :
       linear_implementations(Exec(*device, Numerics::exact), l.backward_weight()))
    EXPECT_NE(name, "onednn");
}

/// Where the CPU has AMX, and for many rows of bf16 alone.
TEST(Linear, FastTakesTheLibraryWhereTheCpuHasAmx) {
  if (!library_multiplies(DType::bf16)) GTEST_SKIP() << "no AVX-512 here";
  for (const bool amx : {false, true}) {
    const auto on = device::make_trace_device({.isa = device::Isa::avx512, .has_amx = amx});
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const int64_t rows : {4, 400}) {
        Layer l({rows, 64, 48}, {dtype, dtype, dtype});
        const auto names = linear_implementations(Exec(*on, Numerics::fast), l.forward());
        const bool first = names.front() == "onednn";
        EXPECT_EQ(first, amx && dtype == DType::bf16 && rows == 400)
            << amx << name_of(dtype) << rows;
      }
    }
  }
}

}  // namespace
}  // namespace megalith::kernels

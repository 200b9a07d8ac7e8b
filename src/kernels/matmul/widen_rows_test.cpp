// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/widen_rows.h"

#include "kernels/matmul/quantized_layer_cases.h"

namespace megalith::kernels {
namespace {

using testing::Outputs;
using testing::TestTensor;

constexpr int64_t kRows = 37, kColumns = 96, kFirst = 15, kCount = 18;

Outputs widened(Exec& exec, const Weight& w) {
  TestTensor y(w.format == Format::f64 ? DType::f64 : DType::f32, Shape{kCount, kColumns}, 2);
  widen_rows(exec, {w, y, kFirst});
  return {y};
}

TEST(WidenRows, AreTheValuesOfBlocks) {
  for (const Format format : matmul::kBlockFormats) {
    matmul::QuantizedLayer layer({4, kColumns, kRows}, format, {DType::f32, DType::f32});
    const Weight w = layer.weight();
    const Outputs y = testing::run_everywhere([&](Exec& exec) { return widened(exec, w); },
                                              std::string(name_of(format)));
    for (int64_t t = 0; t < kCount; ++t)
      for (int64_t i = 0; i < kColumns; ++i)
        ASSERT_EQ(static_cast<float>(y[0].at(t, i)), tile_value(w, kFirst + t, i))
            << name_of(format);
  }
}

TEST(WidenRows, ArePlainNumbers) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const TestTensor w = TestTensor(dtype, Shape{kRows, kColumns}).fill_normal(1);
    const Outputs y = testing::run_everywhere(
        [&](Exec& exec) { return widened(exec, Weight(w.view())); }, "plain");
    for (int64_t t = 0; t < kCount; ++t)
      for (int64_t i = 0; i < kColumns; ++i) ASSERT_EQ(y[0].at(t, i), w.at(kFirst + t, i));
  }
}

}  // namespace
}  // namespace megalith::kernels

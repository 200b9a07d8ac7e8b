// SPDX-License-Identifier: Apache-2.0
// Norms as other families than GPT-2 have them: gamma stored as its distance from a number, no
// beta.
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/norm/layer_norm_inputs.h"

namespace megalith::kernels {
namespace {

TEST(LayerNorm, AnOffsetOfGammaEqualsItsSumBitByBit) {
  const NormCase c = {29, 75, 1, 1};
  for (const NormKind kind : kKinds) {
    NormInputs plain(c, kind, DType::f32, DType::f32, DType::f32);
    plain.gamma.fill_integers(1, -3, 3);
    plain.gamma.set(5, -0.0);  // stays negative
    NormInputs shifted(c, kind, DType::f32, DType::f32, DType::f32, 1);
    shifted.gamma.fill([&](int64_t i) { return plain.gamma.at(i) - 1; });
    shifted.gamma.set(6, -1), plain.gamma.set(6, 0);
    const auto run_of = [](const NormInputs& in) {
      return [&in](Exec& exec) {
        Outputs outputs = in.forward(exec);
        for (const TestTensor& gradient : in.backward(exec, outputs, {}, true))
          outputs.push_back(gradient);
        return outputs;
      };
    };
    const Outputs expected = testing::run_everywhere(run_of(plain), "plain"),
                  actual = testing::run_everywhere(run_of(shifted), "shifted");
    for (size_t k = 0; k < actual.size(); ++k)
      testing::expect_close(actual[k], expected[k], 0, "offset");  // but for signs of zero
    for (int64_t t = 0; t < c.rows; ++t) {
      const double beta = kind == NormKind::layer ? plain.beta.at(5) : 0;
      ASSERT_EQ(expected[0].at(t, 5), beta);
      if (kind == NormKind::rms) {
        ASSERT_EQ(std::signbit(expected[0].at(t, 5)), !std::signbit(plain.x.at(t, 5)));
      }
    }
  }
}

TEST(LayerNorm, RmsNeedsNeitherBetaNorMeanNorSavedStatistics) {
  const NormCase c = {37, 131, 2, 1};
  const NormInputs in(c, NormKind::rms, DType::bf16, DType::bf16, DType::f32);
  const auto inference = [&](Exec& exec) {
    TestTensor y = tensor(DType::bf16, c);
    layer_norm_forward(exec, {.x_TH = in.x, .gamma_H = in.gamma, .y_TH = y, .kind = in.kind});
    return Outputs{y};
  };
  const auto training = [&](Exec& exec) { return Outputs{in.forward(exec)[0]}; };
  testing::expect_same_bits(testing::run_everywhere(inference, "inference"),
                            testing::run_everywhere(training, "training"), "rms");
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  TestTensor y = tensor(DType::bf16, c);
  EXPECT_THROW(
      layer_norm_forward(
          exec,
          {.x_TH = in.x, .gamma_H = in.gamma, .beta_H = in.beta, .y_TH = y, .kind = NormKind::rms}),
      InternalError);
}

}  // namespace
}  // namespace megalith::kernels

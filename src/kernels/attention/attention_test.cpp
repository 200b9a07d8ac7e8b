// SPDX-License-Identifier: Apache-2.0
// Attention against its reference within derived bounds, exact inputs, gradients, masks, dropout.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include "kernels/attention/attention_bounds.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/elementwise/dropout.h"

namespace megalith::kernels {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::TestTensor;
using testing::unit_roundoff;

class AttentionCases : public ::testing::TestWithParam<std::tuple<AttentionCase, DType, bool>> {};

TEST_P(AttentionCases, MatchesReference) {
  const auto& [shape, dtype, materialised] = GetParam();
  const auto device = device::make_cpu_device(2);
  AttentionData fast(shape, dtype), exact(shape, dtype);
  fast.materialised = exact.materialised = materialised;
  // Over bf16 heads probabilities and score gradients are rounded before they are multiplied, and
  // the reference reads stored probabilities, which are rounded as well.
  const double unit = dtype == DType::bf16 ? unit_roundoff(dtype) : 0;
  const RelativeErrors relative(fast, unit, materialised ? 2 * unit : unit);
  // Both sides round to storage.
  const double rounding = is_half(dtype) ? 2.04 * unit_roundoff(dtype) : 0;
  // What the bf16 chain takes as zero, times what it is multiplied by.
  // Of f16 two roundings below its normal numbers.
  const double tiny = dtype == DType::bf16 ? 1e-35 : dtype == DType::f16 ? 0x1p-24 : 1e-38;
  const auto bound = [&](const TestTensor& x, const TestTensor& magnitude, double error) {
    return [&x, &magnitude, error, rounding, tiny](int64_t i) {
      return error * 1.02 * magnitude.at(i) + rounding * std::abs(x.at(i)) + tiny;
    };
  };
  fast.forward(*device);
  exact.forward(*device, "reference");
  expect_close(fast.y, exact.y, bound(exact.y, output_magnitudes(exact, *device), relative.y), "y");
  // lse is at most log n above a score.
  const double scores = 8 + largest_score(fast);
  expect_close(fast.lse, exact.lse, relative.lse * scores, "lse");
  fast.y.expect_gaps_untouched();
  fast.lse.expect_gaps_untouched();
  if (materialised) {
    expect_close(
        fast.probabilities, exact.probabilities,
        bound(exact.probabilities, exact.probabilities, relative.y + relative.lse * scores),
        "probabilities");
  }
  // The same y, lse and probabilities for both, so that only backward's own errors count.
  exact.y = fast.y;
  exact.lse = fast.lse;
  exact.probabilities = fast.probabilities;
  fast.backward(*device);
  exact.backward(*device, "reference");
  const AttentionData magnitudes = gradient_magnitudes(exact, *device);
  expect_close(fast.dqkv, exact.dqkv, bound(exact.dqkv, magnitudes.dqkv, relative.gradient),
               "dqkv");
  expect_close(fast.dkv, exact.dkv, bound(exact.dkv, magnitudes.dkv, relative.gradient), "dkv");
  // What was there before is at most what is there now and what was added.
  expect_close(
      fast.dtable, exact.dtable,
      [&](int64_t i) { return 2.04 * relative.table * magnitudes.dtable.at(i) + tiny; }, "dtable");
  for (const TestTensor* written : {&fast.dqkv, &fast.dkv, &fast.dtable})
    written->expect_gaps_untouched();
}

INSTANTIATE_TEST_SUITE_P(Attention, AttentionCases,
                         ::testing::Combine(::testing::ValuesIn(attention_cases()),
                                            ::testing::Values(DType::f32, DType::bf16, DType::f16),
                                            ::testing::Bool()),
                         [](const auto& instance) {
                           return std::get<0>(instance.param).name + "_" +
                                  std::string(name_of(std::get<1>(instance.param))) +
                                  (std::get<2>(instance.param) ? "_materialised" : "_streaming");
                         });

TEST(Attention, EqualScoresAverageExactly) {
  AttentionData data({"", {256}, 2, 1, 16, false}, DType::f32);
  data.qkv.fill_integers(5, -8, 8);
  for (int64_t t = 0; t < 256; ++t) {
    for (int64_t c = 0; c < 32; ++c) data.qkv.set(t, c, 0);  // both query heads
  }
  for (testing::TestDevice& on : testing::test_devices()) {
    data.forward(*on.device);
    for (int64_t c = 0; c < 32; ++c) {
      double sum = 0;
      for (int64_t t = 0; t < 256; ++t) sum += data.qkv.at(t, 48 + c % 16);
      for (int64_t t = 0; t < 256; ++t) ASSERT_EQ(data.y.at(t, c), sum / 256) << on.name;
    }
  }
}

TEST(Attention, AScoreFarAboveTheOthersCopiesItsValue) {
  // Query i looks for key i * 5 % (i + 1): all other probabilities are exactly 0.
  constexpr int64_t kLength = 130, kSize = 16;
  AttentionData data({"", {kLength}, 1, 1, kSize}, DType::f32);
  const auto code = [](int64_t j, int64_t d) { return (j >> d & 1) != 0 ? 1.0 : -1.0; };
  const auto wanted = [](int64_t i) { return i * 5 % (i + 1); };
  data.qkv.fill_integers(3, -100, 100);
  for (int64_t t = 0; t < kLength; ++t) {
    for (int64_t d = 0; d < kSize; ++d) {
      data.qkv.set(t, d, 512 * code(wanted(t), d));
      data.qkv.set(t, kSize + d, code(t, d));
    }
  }
  for (testing::TestDevice& on : testing::test_devices()) {
    data.forward(*on.device);
    for (int64_t t = 0; t < kLength; ++t) {
      for (int64_t d = 0; d < kSize; ++d) {
        ASSERT_EQ(data.y.at(t, d), data.qkv.at(wanted(t), 2 * kSize + d)) << on.name << " " << t;
      }
      ASSERT_EQ(data.lse.at(0, t), 512 * kSize * 0.25) << on.name << " " << t;
    }
  }
}

TEST(Attention, ASaturatedSoftcapMakesScoresEqualAndPassesNothingOn) {
  // Products of 4096 a pair and up: every tangent is 1, every slope 0.
  AttentionData data({"", {128}, 2, 1, 16, false, 0, -1, -1, 8.0f}, DType::f32);
  data.qkv.fill_integers(7, 16, 32);
  data.dy.fill_integers(8, -4, 4);
  for (testing::TestDevice& on : testing::test_devices()) {
    data.forward(*on.device);
    data.backward(*on.device);
    for (int64_t c = 0; c < 32; ++c) {
      double sum = 0;
      for (int64_t t = 0; t < 128; ++t) sum += data.qkv.at(t, 48 + c % 16);
      for (int64_t t = 0; t < 128; ++t) ASSERT_EQ(data.y.at(t, c), sum / 128) << on.name;
    }
    for (int64_t t = 0; t < 128; ++t) {
      ASSERT_EQ(data.lse.at(0, t), static_cast<double>(8.0f + std::log(128.0f)));
      for (int64_t c = 0; c < 48; ++c) ASSERT_EQ(data.dqkv.at(t, c), 0) << on.name;
    }
  }
}

TEST(Attention, ReferenceBackwardMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  for (const AttentionCase& shape : std::vector<AttentionCase>{
           {"causal", {4, 1, 6}, 4, 2, 3},
           {"bidirectional", {4, 1, 6}, 4, 2, 3, false},
           {"dropout", {4, 1, 6}, 4, 2, 3, true, 0.3f},
           {"bidirectional_dropout", {4, 1, 6}, 4, 2, 3, false, 0.3f},
           {"window", {3, 8}, 2, 1, 3, true, 0, 2},
           {"window_both_sides", {3, 8}, 2, 1, 3, false, 0.3f, 1, 3},
           {"softcap", {5, 2}, 2, 1, 3, true, 0, -1, -1, 0.7f},
           {"cross", {3, 1, 4}, 2, 1, 3, false, 0.3f, -1, -1, 0, {5, 2, 0}},
           {"softcap_dropout", {5}, 2, 1, 3, false, 0.3f, -1, -1, 1.5f},
           biased({"bias", {4, 1, 9}, 4, 2, 3}, {4, 3, false}),
           biased({"bias_window_dropout", {9}, 2, 1, 3, false, 0.3f, 6, 3}, {8, 5, true}),
       }) {
    AttentionData data(shape, DType::f64);
    const auto loss = [&] {
      data.forward(*device);
      return testing::weighted_sum(data.y, data.dy);
    };
    loss();
    data.dqkv.fill_constant(0);  // cross attention writes its own parts of both
    data.dkv.fill_constant(0);
    data.dtable.fill_constant(0);
    data.backward(*device);
    const TestTensor gradient = data.dqkv, key_gradient = data.dkv, table_gradient = data.dtable;
    testing::expect_gradient(loss, data.qkv, gradient, 1e-8, shape.name + " qkv");
    testing::expect_gradient(loss, data.kv, key_gradient, 1e-8, shape.name + " kv");
    testing::expect_gradient(loss, data.table, table_gradient, 1e-8, shape.name + " table");
  }
}

TEST(Attention, WhatIsMaskedIsNeverTouched) {
  const auto device = device::make_cpu_device(1);
  AttentionData clean({"", {100, 50}, 2, 1, 32}, DType::f32), spoiled = clean;
  clean.forward(*device);
  clean.backward(*device);
  // From row 70 of the first sequence on nothing may reach the rows before, nor the second one.
  for (int64_t t = 70; t < 100; ++t) {
    for (int64_t c = 0; c < spoiled.qkv.columns(); ++c) spoiled.qkv.set(t, c, NAN);
  }
  spoiled.forward(*device);
  for (int64_t t = 0; t < 150; ++t) {
    for (int64_t c = 0; c < clean.y.columns(); ++c) {
      if (t < 70 || t >= 100) {
        ASSERT_EQ(spoiled.y.at(t, c), clean.y.at(t, c)) << t;
      } else {
        ASSERT_TRUE(std::isnan(spoiled.y.at(t, c))) << t;
      }
    }
  }
  // Keys from row 70 on get no gradient from earlier queries, whatever those hold.
  AttentionData late = clean;
  for (int64_t t = 0; t < 70; ++t) {
    for (int64_t c = 0; c < late.dy.columns(); ++c) late.dy.set(t, c, INFINITY);
  }
  late.backward(*device);
  for (int64_t t = 70; t < 150; ++t) {
    for (int64_t c = 64; c < late.dqkv.columns(); ++c) {
      ASSERT_EQ(late.dqkv.at(t, c), clean.dqkv.at(t, c)) << t << " " << c;
    }
  }
}

TEST(Attention, MaterialisedGivesTheBitsOfStreaming) {
  const auto device = device::make_cpu_device(2);
  for (const AttentionCase& shape : attention_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      AttentionData streaming(shape, dtype), materialised(shape, dtype);
      materialised.materialised = true;
      for (AttentionData* data : {&streaming, &materialised}) {
        data->forward(*device);
        data->backward(*device);
      }
      expect_same_bits(materialised.y, streaming.y, shape.name + " y");
      expect_same_bits(materialised.lse, streaming.lse, shape.name + " lse");
      expect_same_bits(materialised.dqkv, streaming.dqkv, shape.name + " dqkv");
      expect_same_bits(materialised.dkv, streaming.dkv, shape.name + " dkv");
      expect_same_bits(materialised.dtable, streaming.dtable, shape.name + " dtable");
    }
  }
}

TEST(Attention, DropoutKeepsTheRightShareAndIsKeyed) {
  // With equal scores and values of 1, y counts what was kept.
  AttentionData data({"", {512}, 4, 4, 16, false, 0.25f}, DType::f32);
  data.qkv.fill_constant(0);
  for (int64_t t = 0; t < 512; ++t) {
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t d = 0; d < 16; ++d) data.qkv.set(t, h * 48 + 32 + d, 1);
    }
  }
  const auto device = device::make_cpu_device(1);
  data.forward(*device);
  double kept = 0;
  for (int64_t t = 0; t < 512; ++t) {
    for (int64_t h = 0; h < 4; ++h) {
      const double here = std::round(data.y.at(t, h * 16) * 0.75 * 512);
      double expected = 0;
      for (int64_t j = 0; j < 512; ++j) {
        const auto query = static_cast<uint64_t>(t), key = static_cast<uint64_t>(j);
        const PhiloxBlock words =
            philox(99, query << 32 | key / 4, uint64_t{1000} << 16 | static_cast<uint64_t>(h + 2));
        expected += words[key % 4] >= 0x40000000u ? 1 : 0;
      }
      ASSERT_EQ(here, expected) << t << " " << h;
      kept += here;
    }
  }
  const double draws = 512 * 512 * 4;
  EXPECT_NEAR(kept / draws, 0.75, 5 * std::sqrt(0.75 * 0.25 / draws));
}

TEST(Attention, RefusesWrongArguments) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  AttentionData data({"", {8}, 2, 1, 16}, DType::f32);
  AttentionForward a = data.forward_arguments();
  const std::vector<int32_t> wrong{0, 7};
  a.sequences.cu_seqlens = wrong;
  EXPECT_THROW(attention_forward(exec, a), InternalError);
  a = data.forward_arguments();
  a.k_TKD.num_heads = 3;
  EXPECT_THROW(attention_forward(exec, a), InternalError);
  a = data.forward_arguments();
  a.probabilities = View(data.y.view().data(), DType::f32, Shape{5});
  EXPECT_THROW(attention_forward(exec, a), InternalError);
  exec.only = "materialised";
  EXPECT_THROW(attention_forward(exec, data.forward_arguments()), InternalError);
}

}  // namespace
}  // namespace megalith::kernels

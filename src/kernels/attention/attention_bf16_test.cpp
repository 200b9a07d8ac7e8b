// SPDX-License-Identifier: Apache-2.0
// Attention over bf16 heads: its own blocks against the reference within derived bounds, exact
// inputs, masks, threads, memory. (More cases are those of the tests that take any dtype.)
#include "kernels/attention/attention_bf16.h"

#include <gtest/gtest.h>

#include "device/recorder.h"
#include "kernels/attention/attention_bounds.h"
#include "kernels/attention/attention_cases.h"

namespace megalith::kernels {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::TestTensor;

/// Edges of this code's own blocks.
std::vector<AttentionCase> bf16_cases() {
  return {{"own_block_edges", {31, 32, 33, 127, 129, 191, 193}, 2, 2, 64},
          {"several_key_blocks", {450}, 3, 1, 80},
          {"several_bidirectional", {401}, 2, 1, 96, false},
          {"several_with_dropout", {391, 12}, 2, 1, 40, true, 0.2f},
          {"several_windowed", {390}, 2, 1, 16, false, 0, 140, 50},
          {"several_crossed", {45, 300}, 2, 2, 24, false, 0, -1, -1, 0, {280, 37}},
          biased({"several_biased", {390, 129}, 2, 1, 20, false}, {32, 128, true})};
}

class Bf16AttentionCases : public ::testing::TestWithParam<AttentionCase> {};

// A probability and a score gradient are rounded to bf16 once each, which is one unit roundoff
// relative to each term of the sums that they are multiplied into; all else is f32 arithmetic.
// What lies below the smallest normal number is zero: kTiny covers what it multiplies.
TEST_P(Bf16AttentionCases, MatchesReference) {
  const AttentionCase& shape = GetParam();
  const auto device = device::make_cpu_device(2);
  AttentionData fast(shape, DType::bf16), exact(shape, DType::bf16);
  const double unit = testing::unit_roundoff(DType::bf16);
  const RelativeErrors relative(fast, unit, unit);
  constexpr double kTiny = 1e-30;
  const auto bound = [&](const TestTensor& x, const TestTensor& magnitude, double error) {
    return [&x, &magnitude, error, unit](int64_t i) {
      return error * 1.02 * magnitude.at(i) + 2.04 * unit * std::abs(x.at(i)) + kTiny;
    };
  };
  fast.forward(*device);
  exact.forward(*device, "reference");
  expect_close(fast.y, exact.y, bound(exact.y, output_magnitudes(exact, *device), relative.y), "y");
  const double scores = 8 + largest_score(fast);
  expect_close(fast.lse, exact.lse, relative.lse * scores, "lse");
  fast.y.expect_gaps_untouched();
  fast.lse.expect_gaps_untouched();
  exact.y = fast.y;
  exact.lse = fast.lse;
  fast.backward(*device);
  exact.backward(*device, "reference");
  expect_close(fast.dqkv, exact.dqkv,
               bound(exact.dqkv, gradient_magnitudes(exact, *device).dqkv, relative.gradient),
               "dqkv");
  expect_close(fast.dkv, exact.dkv,
               bound(exact.dkv, gradient_magnitudes(exact, *device).dkv, relative.gradient), "dkv");
  const RelativeErrors unrounded(fast);
  const TestTensor magnitudes = gradient_magnitudes(exact, *device).dtable;
  expect_close(
      fast.dtable, exact.dtable,
      [&](int64_t i) { return 2.04 * unrounded.table * magnitudes.at(i) + kTiny; }, "dtable");
  fast.dqkv.expect_gaps_untouched();
}

INSTANTIATE_TEST_SUITE_P(Attention, Bf16AttentionCases, ::testing::ValuesIn(bf16_cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(Bf16Attention, EqualScoresAverageExactly) {
  const auto device = device::make_cpu_device(2);
  AttentionData data({"", {256}, 2, 1, 16, false}, DType::bf16);
  data.qkv.fill_integers(5, -8, 8);
  for (int64_t t = 0; t < 256; ++t) {
    for (int64_t c = 0; c < 32; ++c) data.qkv.set(t, c, 0);  // both query heads
  }
  data.forward(*device);
  for (int64_t c = 0; c < 32; ++c) {
    double sum = 0;
    for (int64_t t = 0; t < 256; ++t) sum += data.qkv.at(t, 48 + c % 16);
    const double mean = static_cast<double>(to_f32(to_bf16(static_cast<float>(sum / 256))));
    for (int64_t t = 0; t < 256; ++t) ASSERT_EQ(data.y.at(t, c), mean) << t << " " << c;
  }
}

TEST(Bf16Attention, AScoreFarAboveTheOthersCopiesItsValueAndRoutesItsGradient) {
  // Query i looks for key i * 5 % (i + 1): all other probabilities are exactly 0.
  constexpr int64_t kLength = 450, kSize = 16;
  AttentionData data({"", {kLength}, 1, 1, kSize}, DType::bf16);
  const auto code = [](int64_t j, int64_t d) { return (j >> d & 1) != 0 ? 1.0 : -1.0; };
  const auto wanted = [](int64_t i) { return i * 5 % (i + 1); };
  data.qkv.fill_integers(3, -100, 100);
  data.dy.fill_integers(4, -4, 4);
  for (int64_t t = 0; t < kLength; ++t) {
    for (int64_t d = 0; d < kSize; ++d) {
      data.qkv.set(t, d, 512 * code(wanted(t), d));
      data.qkv.set(t, kSize + d, code(t, d));
    }
  }
  const auto device = device::make_cpu_device(2);
  data.forward(*device);
  for (int64_t t = 0; t < kLength; ++t) {
    for (int64_t d = 0; d < kSize; ++d) {
      ASSERT_EQ(data.y.at(t, d), data.qkv.at(wanted(t), 2 * kSize + d)) << t;
    }
    ASSERT_EQ(data.lse.at(0, t), 512 * kSize * 0.25) << t;
  }
  data.backward(*device);
  std::vector<double> dv(kLength * kSize);
  for (int64_t t = 0; t < kLength; ++t) {
    for (int64_t d = 0; d < kSize; ++d) {
      dv[static_cast<size_t>(wanted(t) * kSize + d)] += data.dy.at(t, d);
      // A probability of 1 passes nothing on to its score, nor do those of 0.
      ASSERT_EQ(data.dqkv.at(t, d), 0) << t;
      ASSERT_EQ(data.dqkv.at(t, kSize + d), 0) << t;
    }
  }
  for (int64_t i = 0; i < kLength * kSize; ++i) {
    ASSERT_EQ(data.dqkv.at(i / kSize, 2 * kSize + i % kSize), dv[static_cast<size_t>(i)]) << i;
  }
}

TEST(Bf16Attention, NothingCrossesSequencesOrComesFromLaterChunks) {
  const auto device = device::make_cpu_device(1);
  AttentionData clean({"", {301, 50}, 2, 1, 32}, DType::bf16), spoiled = clean, late = clean;
  clean.forward(*device);
  clean.backward(*device);
  constexpr int64_t kFrom = 5 * kChunk;  // a chunk's first row, inside a block of keys
  for (int64_t t = kFrom; t < 301; ++t) {
    for (int64_t c = 0; c < spoiled.qkv.columns(); ++c) spoiled.qkv.set(t, c, NAN);
  }
  spoiled.forward(*device);
  for (int64_t t = 0; t < 351; ++t) {
    for (int64_t c = 0; c < clean.y.columns(); ++c) {
      if (t < kFrom || t >= 301) {
        ASSERT_EQ(spoiled.y.at(t, c), clean.y.at(t, c)) << t;
      } else {
        ASSERT_TRUE(std::isnan(spoiled.y.at(t, c))) << t;
      }
    }
  }
  // Finite numbers of later keys do not even reach rows of their own chunk.
  AttentionData other = clean;
  for (int64_t t = 203; t < 301; ++t) {
    for (int64_t c = 0; c < other.qkv.columns(); ++c) other.qkv.set(t, c, 1e30);
  }
  other.forward(*device);
  for (int64_t t = 0; t < 203; ++t) {
    for (int64_t c = 0; c < clean.y.columns(); ++c) ASSERT_EQ(other.y.at(t, c), clean.y.at(t, c));
  }
  // Keys get no gradient from earlier queries.
  late.y = clean.y;
  late.lse = clean.lse;
  for (int64_t t = 0; t < 203; ++t) {
    for (int64_t c = 0; c < late.dy.columns(); ++c) late.dy.set(t, c, 1e30);
  }
  late.backward(*device);
  for (int64_t t = 203; t < 351; ++t) {
    for (int64_t c = 64; c < late.dqkv.columns(); ++c) {
      ASSERT_EQ(late.dqkv.at(t, c), clean.dqkv.at(t, c)) << t << " " << c;
    }
  }
}

TEST(Bf16Attention, BitsDoNotDependOnThreadsOrPasses) {
  std::vector<AttentionCase> cases = bf16_cases();
  cases.push_back({"one_group", {450}, 3, 1, 40, true, 0.1f});  // more threads than items
  for (const AttentionCase& shape : cases) {
    std::unique_ptr<AttentionData> first;
    for (const int threads : {1, 2, 5}) {
      const auto device = device::make_cpu_device(threads);
      auto data = std::make_unique<AttentionData>(shape, DType::bf16);
      data->forward(*device);
      data->backward(*device);
      if (first == nullptr)
        first = std::move(data);
      else {
        expect_same_bits(data->y, first->y, shape.name + " y");
        expect_same_bits(data->lse, first->lse, shape.name + " lse");
        expect_same_bits(data->dqkv, first->dqkv, shape.name + " dqkv");
        expect_same_bits(data->dtable, first->dtable, shape.name + " dtable");
      }
    }
  }
}

TEST(Bf16Attention, IsTheSameInFastNumerics) {
  const auto device = device::make_cpu_device(2);
  AttentionData exact({"", {165}, 2, 1, 16}, DType::bf16), fast = exact;
  exact.forward(*device, "bf16");
  exact.backward(*device, "bf16");
  fast.forward(*device, {}, Numerics::fast);
  fast.backward(*device, {}, Numerics::fast);
  expect_same_bits(fast.y, exact.y, "y");
  expect_same_bits(fast.dqkv, exact.dqkv, "dqkv");
  AttentionData wide({"", {65}, 2, 1, 16}, DType::f32);
  EXPECT_THROW(wide.forward(*device, "bf16"), InternalError);
  EXPECT_THROW(wide.backward(*device, "bf16"), InternalError);
}

TEST(Bf16Attention, TraceAllocatesWhatTheRealRunDoesAndMemoryGrowsLinearly) {
  const device::Target target{device::DeviceKind::cpu, device::Isa::avx512_bf16, 3};
  const auto high_water = [&](device::Device& on, int32_t length) {
    AttentionData data({"", {length, 65}, 4, 2, 40}, DType::bf16);
    data.forward(on);
    data.backward(on);
    EXPECT_EQ(on.arena(device::MemoryClass::workspace).in_use(), 0);
    return on.arena(device::MemoryClass::workspace).high_water();
  };
  const auto traced = device::make_trace_device(target), longer = device::make_trace_device(target);
  device::Recorder recorder;
  traced->set_recorder(&recorder);
  const int64_t planned = high_water(*traced, 512);
  ASSERT_EQ(recorder.records().size(), 2u);
  const double pairs = 512 * 513 / 2 + 65 * 66 / 2;
  EXPECT_EQ(recorder.records()[0].work.flops, 4 * 40 * 4 * pairs);
  EXPECT_EQ(recorder.records()[1].work.flops, 10 * 40 * 4 * pairs);
  EXPECT_LT(high_water(*longer, 4096), 8 * planned);
  if (device::detect_isa() < target.isa) return;
  const auto real = device::make_cpu_device(3);
  EXPECT_EQ(high_water(*real, 512), planned);
}

}  // namespace
}  // namespace megalith::kernels

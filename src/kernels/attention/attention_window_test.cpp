// SPDX-License-Identifier: Apache-2.0
// What a query sees: counts against a loop, exact averages over windows, what lies outside is never
// touched, a window beyond the sequence is none, and the traced cost.
#include <gtest/gtest.h>

#include "device/recorder.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/attention/attention_work.h"

namespace megalith::kernels {
namespace {

using testing::expect_same_bits;

TEST(AttentionWindow, PairsAreCountedExactly) {
  for (const int64_t left : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{100}, kUnlimited}) {
    for (const int64_t right : {int64_t{0}, int64_t{2}, int64_t{9}, int64_t{100}, kUnlimited}) {
      const Sight sight{13, 13, left, right};
      for (int64_t begin = 0; begin <= 13; ++begin) {
        int64_t pairs = 0;
        for (int64_t end = begin; end <= 13; ++end) {
          ASSERT_EQ(sight.pairs(begin, end), pairs) << left << " " << right;
          for (int64_t j = 0; j < 13; ++j) pairs += end - left <= j && j <= end + right ? 1 : 0;
        }
      }
      for (int64_t i = 0; i < 13; ++i) {
        for (int64_t j = 0; j < 13; ++j) {
          const auto holds = [](Range range, int64_t at) {
            return range.begin <= at && at < range.end;
          };
          ASSERT_EQ(holds(sight.keys_of(i), j), holds(sight.mirrored().keys_of(j), i));
        }
      }
    }
  }
}

struct Window {
  bool causal;
  int64_t left, right;
};
constexpr Window kWindows[] = {
    {true, 0, -1}, {true, 9, -1},  {true, 63, -1},  {true, 64, -1},   {true, 130, 0},
    {false, 9, 9}, {false, 70, 3}, {false, -1, 64}, {false, 100, -1}, {false, 0, 0},
};
AttentionCase windowed(const AttentionCase& shape, const Window& window) {
  AttentionCase result = shape;
  result.causal = window.causal;
  result.window_left = window.left;
  result.window_right = window.right;
  return result;
}
/// Whether query i sees key j.
bool sees(const Window& window, int64_t i, int64_t j) {
  return (window.left < 0 || j >= i - window.left) &&
         (window.causal ? j <= i : window.right < 0 || j <= i + window.right);
}

TEST(AttentionWindow, EqualScoresAverageExactly) {
  for (const Window& window : kWindows) {
    AttentionData data(windowed({"", {200}, 2, 1, 16}, window), DType::f32);
    data.qkv.fill_integers(5, -8, 8);
    for (int64_t t = 0; t < 200; ++t) {
      for (int64_t c = 0; c < 32; ++c) data.qkv.set(t, c, 0);  // both query heads
    }
    for (testing::TestDevice& on : testing::test_devices()) {
      data.forward(*on.device);
      for (int64_t i = 0; i < 200; ++i) {
        for (int64_t c = 0; c < 32; ++c) {
          float sum = 0, count = 0;
          for (int64_t j = 0; j < 200; ++j) {
            if (!sees(window, i, j)) continue;
            sum += static_cast<float>(data.qkv.at(j, 48 + c % 16));
            count += 1;
          }
          ASSERT_EQ(data.y.at(i, c), static_cast<double>(sum / count)) << on.name << " " << i;
        }
      }
    }
  }
}

// A NaN in one token reaches exactly the queries that see it; an infinite gradient of one query
// exactly the keys that it sees.
TEST(AttentionWindow, WhatIsOutsideIsNeverTouched) {
  const auto device = device::make_cpu_device(1);
  for (const Window& window : kWindows) {
    AttentionData clean(windowed({"", {200, 50}, 2, 1, 32}, window), DType::f32);
    clean.forward(*device);
    clean.backward(*device);
    for (const int64_t at : {0, 63, 100, 128, 199}) {
      AttentionData spoiled = clean, steep = clean;
      for (int64_t c = 64; c < 128; ++c) spoiled.qkv.set(at, c, NAN);
      spoiled.forward(*device);
      for (int64_t t = 0; t < 250; ++t) {
        for (int64_t c = 0; c < 64; ++c) {
          if (t < 200 && sees(window, t, at)) {
            ASSERT_TRUE(std::isnan(spoiled.y.at(t, c))) << t << " " << at;
          } else {
            ASSERT_EQ(spoiled.y.at(t, c), clean.y.at(t, c)) << t << " " << at;
          }
        }
      }
      for (int64_t c = 0; c < 64; ++c) steep.dy.set(at, c, INFINITY);
      steep.backward(*device);
      for (int64_t t = 0; t < 250; ++t) {
        if (t < 200 && sees(window, at, t)) continue;
        for (int64_t c = 64; c < 128; ++c) {
          ASSERT_EQ(steep.dqkv.at(t, c), clean.dqkv.at(t, c)) << t << " " << at;
        }
      }
    }
  }
}

TEST(AttentionWindow, BeyondTheSequenceIsNone) {
  const auto device = device::make_cpu_device(2);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool causal : {true, false}) {
      AttentionData plain({"", {150, 70}, 2, 1, 24, causal, 0.1f}, dtype);
      AttentionData wide(windowed(plain.shape, {causal, 149, causal ? 0 : 149}), dtype);
      for (AttentionData* data : {&plain, &wide}) {
        data->forward(*device);
        data->backward(*device);
      }
      expect_same_bits(wide.y, plain.y, "y");
      expect_same_bits(wide.lse, plain.lse, "lse");
      expect_same_bits(wide.dqkv, plain.dqkv, "dqkv");
    }
  }
}

TEST(AttentionWindow, OnePassAndTwoPassesAgree) {
  for (const Window& window : kWindows) {
    AttentionData one(windowed({"", {333}, 3, 1, 40, true, 0.1f}, window), DType::f32), two = one;
    const auto single = device::make_cpu_device(1), many = device::make_cpu_device(5);
    one.forward(*single);
    one.backward(*single);
    two.forward(*many);
    two.backward(*many);
    expect_same_bits(two.dqkv, one.dqkv, "dqkv");
  }
}

TEST(AttentionWindow, TraceCountsWhatIsSeen) {
  for (const Window& window : kWindows) {
    AttentionData data(windowed({"", {100, 165}, 4, 2, 32}, window), DType::f32);
    const auto traced = device::make_trace_device({device::DeviceKind::cpu, device::Isa::avx2, 3});
    device::Recorder recorder;
    traced->set_recorder(&recorder);
    data.forward(*traced);
    data.backward(*traced);
    double pairs = 0;
    for (const int32_t length : data.shape.lengths) {
      for (int64_t i = 0; i < length; ++i) {
        for (int64_t j = 0; j < length; ++j) pairs += sees(window, i, j) ? 1 : 0;
      }
    }
    ASSERT_EQ(recorder.records().size(), 2u);
    EXPECT_EQ(recorder.records()[0].work.flops, 4 * 32 * 4 * pairs);
    EXPECT_EQ(recorder.records()[1].work.flops, 10 * 32 * 4 * pairs);
  }
}

TEST(AttentionWindow, RefusesWindowsThatContradict) {
  const auto device = device::make_cpu_device(1);
  AttentionData data(windowed({"", {8}, 1, 1, 16}, {true, 3, 1}), DType::f32);
  EXPECT_THROW(data.forward(*device), InternalError);
  data.shape.window_right = 0;
  data.forward(*device);
  data.shape.window_left = -2;
  EXPECT_THROW(data.forward(*device), InternalError);
}

}  // namespace
}  // namespace megalith::kernels

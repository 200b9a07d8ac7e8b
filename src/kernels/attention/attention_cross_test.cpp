// SPDX-License-Identifier: Apache-2.0
// Attention over keys with sequences of their own: the bits of one sequence over itself where both
// are the same, nothing to see, and what is refused. (Reference, gradients and bits over
// threads are cases of the other tests.)
#include <gtest/gtest.h>

#include <limits>

#include "kernels/attention/attention_cases.h"

namespace megalith::kernels {
namespace {

using testing::expect_same_bits;

AttentionCase cross(std::vector<int32_t> lengths, std::vector<int32_t> key_lengths) {
  AttentionCase shape{"", std::move(lengths), 4, 2, 24, false};
  shape.key_lengths = std::move(key_lengths);
  return shape;
}

TEST(AttentionCross, OverTheSameRowsHasTheBitsOfOneSequence) {
  const auto device = device::make_cpu_device(2);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    AttentionData self({"", {150, 0, 70}, 4, 2, 24, false}, dtype);
    AttentionData apart(cross({150, 0, 70}, {150, 0, 70}), dtype);
    apart.kv.fill([&](int64_t i) { return self.qkv.at(i); });
    for (AttentionData* data : {&self, &apart}) {
      data->forward(*device);
      data->backward(*device);
    }
    expect_same_bits(apart.y, self.y, "y");
    expect_same_bits(apart.lse, self.lse, "lse");
    for (int64_t t = 0; t < 220; ++t) {
      for (int64_t c = 0; c < self.dqkv.columns(); ++c) {
        const bool query = c / 24 % 4 < 2;
        ASSERT_EQ((query ? apart.dqkv : apart.dkv).at(t, c), self.dqkv.at(t, c)) << t << " " << c;
      }
    }
  }
}

TEST(AttentionCross, AQueryAloneIsAmongOthersWhatItIsAlone) {
  const auto device = device::make_cpu_device(2);
  AttentionData all(cross({100}, {77}), DType::f32), one(cross({1}, {77}), DType::f32);
  all.forward(*device);
  one.kv = all.kv;
  for (const int64_t t : {0, 63, 99}) {
    one.qkv.fill([&](int64_t i) { return all.qkv.at(t, i); });
    one.forward(*device);
    for (int64_t c = 0; c < all.y.columns(); ++c) ASSERT_EQ(one.y.at(0, c), all.y.at(t, c)) << t;
  }
}

TEST(AttentionCross, WithoutKeysOrQueriesThereIsNothing) {
  for (const int threads : {1, 2, 7}) {
    const auto device = device::make_cpu_device(threads);
    for (const std::string_view entry : {"", "reference"}) {
      for (const AttentionCase& shape : {cross({70, 30}, {0, 0}), cross({0, 65}, {130, 0}),
                                         cross({70, 0, 65}, {0, 90, 20}), cross({0}, {66})}) {
        AttentionData data(shape, DType::f32);
        for (auto* tensor : {&data.y, &data.lse, &data.dqkv, &data.dkv}) {
          tensor->fill_constant(std::numeric_limits<double>::quiet_NaN());
        }
        data.forward(*device, entry);
        data.backward(*device, entry);
        for (size_t s = 0; s < shape.lengths.size(); ++s) {
          const bool some = shape.lengths[s] > 0 && shape.key_lengths[s] > 0;
          const double no_lse = -std::numeric_limits<double>::infinity();
          for (int64_t t = data.cu_seqlens[s]; t < data.cu_seqlens[s + 1]; ++t) {
            for (int64_t c = 0; c < data.y.columns() && !some; ++c) ASSERT_EQ(data.y.at(t, c), 0);
            for (int64_t h = 0; h < 4 && !some; ++h) ASSERT_EQ(data.lse.at(h, t), no_lse);
            for (int64_t c = 0; c < 48 && !some; ++c) ASSERT_EQ(data.dqkv.at(t, c), 0);
            ASSERT_FALSE(std::isnan(data.y.at(t, 0)));
            ASSERT_FALSE(std::isnan(data.dqkv.at(t, 0)));
          }
          for (int64_t t = data.cu_seqlens_keys[s]; t < data.cu_seqlens_keys[s + 1]; ++t) {
            for (int64_t c = 48; c < 96 && !some; ++c) ASSERT_EQ(data.dkv.at(t, c), 0);
            ASSERT_FALSE(std::isnan(data.dkv.at(t, 48)));
          }
        }
      }
    }
  }
}

TEST(AttentionCross, OnePassAndTwoPassesAgree) {
  AttentionData one({"", {333}, 3, 1, 40, false, 0.1f, -1, -1, 0, {210}}, DType::f32), two = one;
  const auto single = device::make_cpu_device(1), many = device::make_cpu_device(5);
  one.forward(*single);
  one.backward(*single);
  two.forward(*many);
  two.backward(*many);
  expect_same_bits(two.y, one.y, "y");
  expect_same_bits(two.dqkv, one.dqkv, "dqkv");
  expect_same_bits(two.dkv, one.dkv, "dkv");
}

TEST(AttentionCross, TraceCountsEachPairAndAllocatesWhatTheRealRunDoes) {
  AttentionData data(cross({100, 65, 7}, {33, 129, 0}), DType::f32);
  data.materialised = true;
  const auto real = device::make_cpu_device(3);
  const auto traced = device::make_trace_device(real->target());
  device::Recorder recorder;
  traced->set_recorder(&recorder);
  for (device::Device* on : {real.get(), traced.get()}) {
    data.forward(*on);
    data.backward(*on);
  }
  EXPECT_EQ(traced->arena(device::MemoryClass::workspace).high_water(),
            real->arena(device::MemoryClass::workspace).high_water());
  const double pairs = 100 * 33 + 65 * 129;
  ASSERT_EQ(recorder.records().size(), 2u);
  EXPECT_EQ(recorder.records()[0].work.flops, 4 * 24 * 4 * pairs);
  EXPECT_EQ(recorder.records()[1].work.flops, 10 * 24 * 4 * pairs);
  EXPECT_EQ(data.probabilities.size(), static_cast<int64_t>(4 * pairs));
}

TEST(AttentionCross, RefusesMasksAndWrongLengths) {
  const auto device = device::make_cpu_device(1);
  const auto expect_refused = [&](AttentionData data) {
    EXPECT_THROW(data.forward(*device), InternalError);
  };
  AttentionData data(cross({8, 3}, {5, 9}), DType::f32), causal = data, window = data;
  data.forward(*device);
  causal.shape.causal = true;
  expect_refused(causal);
  window.shape.window_left = 3;
  expect_refused(window);
  AttentionData fewer = data;
  fewer.cu_seqlens_keys = {0, 14};
  expect_refused(fewer);
  AttentionData shorter = data;
  shorter.cu_seqlens_keys = {0, 5, 13};
  expect_refused(shorter);
}

}  // namespace
}  // namespace megalith::kernels

// SPDX-License-Identifier: Apache-2.0
// Attention over bf16 heads has the bits of its stated arithmetic on every instruction set and any
// thread count, denormals included, and leaves no thread's arithmetic changed.
#include "kernels/attention/attention_stated.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include "kernels/attention/kv_cache_cases.h"

namespace megalith::kernels {
namespace {

using testing::expect_same_bits;

std::vector<AttentionCase> stated_cases() {
  AttentionCase partials{"partials", {70, 9}, 6, 1, 12, true, 0.1f};
  partials.kv_partials = 3;
  return {{"one_token", {1}, 2, 1, 8},
          {"head_of_one", {5, 70}, 2, 2, 1},
          {"odd", {1, 33, 0, 131}, 2, 1, 37},
          {"two_blocks", {257}, 1, 1, 64},
          {"bidirectional", {67, 130}, 2, 1, 16, false},
          {"grouped_dropout", {141, 8}, 4, 2, 20, true, 0.25f},
          {"window", {200}, 2, 1, 24, true, 0, 69},
          {"window_of_itself", {40}, 1, 1, 5, true, 0, 0},
          {"window_of_a_block", {300}, 1, 1, 16, true, 0, 127},
          {"window_of_a_block_and_one", {270, 129}, 2, 1, 8, true, 0, 128},
          {"window_both_sides", {290}, 1, 1, 16, false, 0.2f, 37, 180},
          {"softcap", {140, 3}, 2, 1, 16, true, 0, -1, -1, 2.0f},
          {"softcap_window_dropout", {150}, 2, 2, 9, true, 0.2f, 70, -1, 0.5f},
          {"cross", {40, 1, 0, 7}, 2, 1, 12, false, 0.1f, -1, -1, 0, {150, 67, 5, 0}},
          biased({"bias", {150, 1, 33}, 4, 2, 12}, {32, 128, false}),
          biased({"bias_of_both_sides", {140, 260}, 1, 1, 9, false, 0.2f}, {8, 20, true}),
          biased({"bias_window", {300}, 2, 1, 8, false, 0, 140, 50}, {32, 128, true}),
          partials};
}

void expect_stated(const AttentionData& data) {
  const AttentionData stated = StatedAttention(data).run();
  for (testing::TestDevice& on : testing::test_devices()) {
    const std::string what = data.shape.name + " on " + on.name;
    AttentionData own = data;
    own.forward(*on.device);
    expect_same_bits(own.y, stated.y, what + " y");
    expect_same_bits(own.lse, stated.lse, what + " lse");
    own.backward(*on.device);
    expect_same_bits(own.dqkv, stated.dqkv, what + " dqkv");
    expect_same_bits(own.dkv, stated.dkv, what + " dkv");
    expect_same_bits(own.dtable, stated.dtable, what + " dtable");
  }
}

TEST(StatedAttention, IsWhatEveryInstructionSetComputes) {
  for (const AttentionCase& shape : stated_cases()) {
    AttentionData data(shape, DType::bf16);
    // Nothing is written where there is nothing to see or be seen by.
    data.dqkv.fill_constant(0);
    data.dkv.fill_constant(0);
    expect_stated(data);
  }
}

/// Values and gradients so small that products, probabilities times gradients and running sums
/// cross the least normal number all the time.
TEST(StatedAttention, HoldsAmongDenormals) {
  for (const double size : {0x1p-118, 0x1p-124}) {
    for (const float cap : {0.0f, 1.0f}) {
      AttentionData data({"denormals", {150}, 2, 1, 17, true, 0.1f, -1, -1, cap}, DType::bf16);
      for (int64_t t = 0; t < data.num_rows; ++t) {
        for (int64_t c = 0; c < 17; ++c) {
          data.qkv.set(t, 51 + c, data.qkv.at(t, 51 + c) * size);
          data.dy.set(t, c, data.dy.at(t, c) * size);
        }
        // Scores wide enough for probabilities down to nothing.
        for (int64_t c = 0; c < 51; ++c) data.qkv.set(t, c, data.qkv.at(t, c) * 4);
      }
      expect_stated(data);
    }
  }
}

TEST(StatedAttention, HoldsAmongDenormalsOfTheCache) {
  AttentionData data({"denormals", {150}, 2, 1, 17}, DType::bf16);
  for (int64_t t = 0; t < data.num_rows; ++t) {
    for (int64_t c = 0; c < 17; ++c) data.qkv.set(t, 51 + c, data.qkv.at(t, 51 + c) * 0x1p-124);
  }
  const AttentionData stated = StatedAttention(data).run();
  for (testing::TestDevice& on : testing::test_devices()) {
    for (const int32_t chunk : {1, 40}) {
      Cache cache(DType::bf16, 1, 17, data.shape.lengths);
      run_cached(*on.device, data, cache, chunk);
      expect_same_bits(data.y, stated.y, on.name);
    }
  }
}

TEST(StatedAttention, HoldsForAnyScale) {
  for (const float scale : {-0.3f, 0.0f, 7.0f}) {
    AttentionData data({"scale", {140}, 2, 1, 16}, DType::bf16);
    data.scaled_by = scale;
    expect_stated(data);
  }
}

/// MXCSR without its sticky flags.
unsigned control() { return _mm_getcsr() & ~0x3fu; }

TEST(StatedAttention, LeavesEveryThreadsArithmeticAsItWas) {
  const unsigned before = control();
  for (testing::TestDevice& on : testing::test_devices()) {
    const auto expect_unchanged = [&](const char* what) {
      EXPECT_EQ(control(), before) << what << " " << on.name;
      std::vector<unsigned> of(static_cast<size_t>(on.device->target().num_threads));
      on.device->pool().run([&](int thread) { of[static_cast<size_t>(thread)] = control(); });
      for (const unsigned own : of) EXPECT_EQ(own, before) << what << " " << on.name;
    };
    AttentionData data({"", {150, 70}, 4, 2, 20, true, 0.1f}, DType::bf16);
    data.forward(*on.device);
    expect_unchanged("forward");
    data.backward(*on.device);
    expect_unchanged("backward");
    data.materialised = true;
    data.forward(*on.device);
    expect_unchanged("materialised forward");
    data.backward(*on.device);
    expect_unchanged("materialised backward");
    for (const int32_t chunk : {1, 40}) {
      AttentionData cached({"", {66, 40}, 4, 2, 20}, DType::bf16);
      Cache cache(DType::bf16, 2, 20, cached.shape.lengths);
      run_cached(*on.device, cached, cache, chunk);
      expect_unchanged("cached");
    }
  }
}

}  // namespace
}  // namespace megalith::kernels

// SPDX-License-Identifier: Apache-2.0
// The KV cache: cached attention gives the bits of attention over the whole sequence for any cut
// into calls, any neighbours and any order of blocks; and agrees with its reference.
#include "kernels/attention/kv_cache.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention/kv_cache_cases.h"

namespace megalith::kernels {
namespace {

TEST(KvCache, AnyCutIntoCallsGivesTheBitsOfTheWholeSequence) {
  for (const AttentionCase& shape : cached_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      AttentionData whole(shape, dtype);
      const auto one = device::make_cpu_device(1);
      whole.forward(*one);
      for (const int32_t chunk : {1, 7, 64, 1000}) {
        for (testing::TestDevice& on : testing::test_devices()) {
          if (chunk == 1 && on.device->target().num_threads == 2) continue;
          AttentionData data(shape, dtype);
          Cache cache(dtype, shape.num_kv_heads, shape.head_size, shape.lengths);
          run_cached(*on.device, data, cache, chunk);
          testing::expect_same_bits(
              data.y, whole.y,
              fmt::format("{} {} chunk {} {}", shape.name, name_of(dtype), chunk, on.name));
        }
      }
    }
  }
}

TEST(KvCache, ReferenceAgreesWithAttentionInDouble) {
  const auto device = device::make_cpu_device(1);
  for (const AttentionCase& shape : cached_cases()) {
    AttentionData whole(shape, DType::f64), data(shape, DType::f64);
    whole.forward(*device);
    Cache cache(DType::f64, shape.num_kv_heads, shape.head_size, shape.lengths);
    run_cached(*device, data, cache, 50);
    testing::expect_close(data.y, whole.y, 1e-12, shape.name);
  }
}

TEST(KvCache, EveryEntryWritesTheSameCache) {
  const auto device = device::make_cpu_device(3);
  for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType to : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
      const AttentionCase shape{"", {100, 30}, 4, 2, 36};
      AttentionData data(shape, from);
      Cache fast(to, 2, 36, shape.lengths), exact = fast;
      run_cached(*device, data, fast, 33);
      run_cached(*device, data, exact, 33, "reference");
      testing::expect_same_bits(fast.storage, exact.storage, "cache");
    }
  }
}

/// Keys and values as a cache of codes gives them back: blocks of 32 channels of a head.
AttentionData through_codes(const AttentionData& data) {
  const AttentionCase& c = data.shape;
  AttentionData rounded = data;
  const ConstView in = rounded.qkv.view();
  for (const ConstHeadsView& x : {keys(in, c.num_heads, c.num_kv_heads, c.head_size),
                                  values(in, c.num_heads, c.num_kv_heads, c.head_size)}) {
    for (int64_t t = 0; t < x.num_rows; ++t) {
      for (int64_t h = 0; h < c.num_kv_heads; ++h) {
        auto* const head = reinterpret_cast<float*>(const_cast<std::byte*>(x.at(t, h)));
        for (int64_t first = 0; first < c.head_size; first += 32) {
          const int64_t count = std::min<int64_t>(32, c.head_size - first);
          float largest = 0;
          for (int64_t d = first; d < first + count; ++d)
            largest = std::max(largest, std::fabs(head[d]));
          const float scale = largest / 127.0F, stored = to_f32(to_f16(scale));
          for (int64_t d = first; d < first + count; ++d)
            head[d] = std::round(head[d] * (1.0F / scale)) * stored;
        }
      }
    }
  }
  return rounded;
}

TEST(KvCache, OfCodesIsAttentionOverTheRoundedKeysAndValues) {
  for (const AttentionCase& shape : cached_cases()) {
    const AttentionData data(shape, DType::f32);
    AttentionData expected = through_codes(data);
    const auto one = device::make_cpu_device(1);
    expected.forward(*one);
    for (const int32_t chunk : {1, 7, 1000}) {
      for (testing::TestDevice& on : testing::test_devices()) {
        AttentionData actual = data;
        Cache cache(DType::i8, shape.num_kv_heads, shape.head_size, shape.lengths);
        run_cached(*on.device, actual, cache, chunk);
        testing::expect_same_bits(actual.y, expected.y,
                                  fmt::format("{} chunk {} {}", shape.name, chunk, on.name));
      }
    }
  }
}

/// Chains of some hundred roundings of numbers near 1, and the same codes summed in double.
TEST(KvCache, OfCodesAgreesWithTheReference) {
  const auto device = device::make_cpu_device(2);
  for (const AttentionCase& shape : cached_cases()) {
    AttentionData fast(shape, DType::f32), exact = fast;
    Cache cache(DType::i8, shape.num_kv_heads, shape.head_size, shape.lengths), other = cache;
    run_cached(*device, fast, cache, 50);
    run_cached(*device, exact, other, 50, "reference");
    testing::expect_close(fast.y, exact.y, 1e-4, shape.name);
  }
}

TEST(KvCache, BytesAreThoseOfTheStorage) {
  EXPECT_EQ(kv_cache_bytes({DType::i8, 2, 64, 3}), 3 * 2 * 64 * (64 + 64 + 2 * 2 * 2));
  EXPECT_EQ(kv_cache_bytes({DType::i8, 2, 20, 1}), 2 * 64 * (20 + 32 + 2 * 2));
  // 3 blocks of 2 heads: keys 64 x 20 and values 64 x 32 each. Elements of bf16 come in pairs.
  EXPECT_EQ(kv_cache_bytes({DType::bf16, 2, 20, 3}), 3 * 2 * 64 * (20 + 32) * 2);
  EXPECT_EQ(kv_cache_bytes({DType::bf16, 2, 19, 3}), 3 * 2 * 64 * (20 + 32) * 2);
  EXPECT_EQ(kv_cache_bytes({DType::f32, 2, 19, 3}), 3 * 2 * 64 * (19 + 32) * 4);
  EXPECT_EQ(kv_cache_blocks(0), 0);
  EXPECT_EQ(kv_cache_blocks(64), 1);
  EXPECT_EQ(kv_cache_blocks(65), 2);
}

TEST(KvCache, RefusesPositionsWithoutABlock) {
  const auto device = device::make_cpu_device(1);
  AttentionData data({"", {70}, 1, 1, 16}, DType::f32);
  Cache cache(DType::f32, 1, 16, {70});
  cache.table.set(0, 1, -1);
  EXPECT_THROW(step(*device, data, cache, {70}), InternalError);
  cache.table.set(0, 1, 2);
  EXPECT_THROW(step(*device, data, cache, {70}), InternalError);
}

}  // namespace
}  // namespace megalith::kernels

// SPDX-License-Identifier: Apache-2.0
// The KV cache: cached attention gives the bits of attention over the whole sequence for any cut
// into calls, any neighbours and any order of blocks; and agrees with its reference.
#include "kernels/attention/kv_cache.h"

#include <gtest/gtest.h>

#include "kernels/attention/kv_cache_cases.h"

namespace megalith::kernels {
namespace {

TEST(KvCache, AnyCutIntoCallsGivesTheBitsOfTheWholeSequence) {
  for (const AttentionCase& shape : cached_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
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

/// Prompts in bf16 are training's forward in bf16: its bits, and so its bounds
/// (attention_bf16_test.cpp).
TEST(KvCache, PromptsInBf16AreTheBitsOfForwardInBf16) {
  if (device::detect_isa() < device::Isa::avx512_bf16) GTEST_SKIP() << "no AVX512-BF16";
  std::vector<AttentionCase> cases = cached_cases();
  cases.push_back({"several_key_blocks", {450, 193}, 4, 2, 64});
  for (const AttentionCase& shape : cases) {
    if (shape.window_left >= 0 || shape.softcap > 0) continue;
    AttentionData whole(shape, DType::bf16);
    const auto device = device::make_cpu_device(2);
    whole.forward(*device, "bf16_dot", Numerics::fast);
    for (const int32_t chunk : {7, 33, 64, 1000}) {
      for (const int threads : {1, 3}) {
        const auto on = device::make_cpu_device(threads);
        AttentionData data(shape, DType::bf16);
        Cache cache(DType::bf16, shape.num_kv_heads, shape.head_size, shape.lengths);
        run_cached(*on, data, cache, chunk, "bf16_dot", Numerics::fast);
        testing::expect_same_bits(data.y, whole.y,
                                  fmt::format("{} chunk {} on {}", shape.name, chunk, threads));
      }
    }
  }
}

/// What a call of `added` new tokens by sequence tries first.
std::string_view first_choice(const std::vector<int32_t>& added, DType cache = DType::bf16,
                              Numerics numerics = Numerics::fast,
                              device::Isa isa = device::Isa::avx512_bf16) {
  const auto device = device::make_trace_device({device::DeviceKind::cpu, isa, 1});
  const Exec exec(*device, numerics);
  const std::vector<int32_t> cu = AttentionData::offsets(added), past(added.size(), 70);
  const KvCacheShape shape{cache, 1, 16, static_cast<int64_t>(2 * added.size())};
  const auto tensor = [&](DType dtype, const Shape& of) {
    return exec.workspace.tensor(dtype, of);
  };
  const auto storage = tensor(cache, Shape{kv_cache_elements(shape)});
  const auto table = tensor(DType::i32, Shape{std::ssize(added), 2});
  const auto q = tensor(DType::bf16, Shape{cu.back(), 16}), y = tensor(DType::bf16, q.view.shape());
  return attention_cached_implementations(exec, {.shape = shape,
                                                 .cache = storage,
                                                 .sequences = {.cu_seqlens = cu,
                                                               .past = past,
                                                               .cu_seqlens_device = {},
                                                               .past_device = {},
                                                               .block_table_SM = table},
                                                 .q_TND = heads(ConstView(q.view), 1, 16),
                                                 .y_TND = heads(y.view, 1, 16)})
      .front();
}

TEST(KvCache, OnlyCallsOfPromptsTakeBf16) {
  EXPECT_EQ(first_choice({16}), "bf16_dot");
  EXPECT_EQ(first_choice({15}), "blocks");
  EXPECT_EQ(first_choice({1}), "blocks");
  EXPECT_EQ(first_choice({16}, DType::f32), "blocks");
  EXPECT_EQ(first_choice({16}, DType::bf16, Numerics::exact), "blocks");
  EXPECT_EQ(first_choice({16}, DType::bf16, Numerics::fast, device::Isa::avx512), "blocks");
  // A sequence that decodes does not change its bits with a prompt beside it.
  EXPECT_EQ(first_choice({16, 0, 20}), "bf16_dot");
  EXPECT_EQ(first_choice({1, 30}), "blocks");
  EXPECT_EQ(first_choice({30, 15}), "blocks");
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
  for (const DType from : {DType::f32, DType::bf16}) {
    for (const DType to : {DType::f32, DType::bf16}) {
      const AttentionCase shape{"", {100, 30}, 4, 2, 20};
      AttentionData data(shape, from);
      Cache fast(to, 2, 20, shape.lengths), exact = fast;
      run_cached(*device, data, fast, 33);
      run_cached(*device, data, exact, 33, "reference");
      testing::expect_same_bits(fast.storage, exact.storage, "cache");
    }
  }
}

TEST(KvCache, BytesAreThoseOfTheStorage) {
  // 3 blocks of 2 heads: keys 64 x 20 and values 64 x 32 each.
  EXPECT_EQ(kv_cache_bytes({DType::bf16, 2, 20, 3}), 3 * 2 * 64 * (20 + 32) * 2);
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

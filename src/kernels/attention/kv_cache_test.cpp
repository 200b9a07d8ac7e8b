// SPDX-License-Identifier: Apache-2.0
// The KV cache: cached attention gives the bits of attention over the whole sequence for any cut
// into calls, any neighbours and any order of blocks; and agrees with its reference.
#include "kernels/attention/kv_cache.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/attention/attention_cases.h"

namespace megalith::kernels {
namespace {

using testing::TestTensor;

/// A cache whose unused storage is NaN and whose blocks are dealt out of order.
struct Cache {
  KvCacheShape shape;
  TestTensor storage, table;
  std::vector<int32_t> past;

  Cache(DType dtype, int64_t num_kv_heads, int64_t head_size, const std::vector<int32_t>& lengths)
      : shape{dtype, num_kv_heads, head_size, blocks_for(lengths)},
        storage(dtype, Shape{kv_cache_elements(shape)}),
        table(DType::i32, Shape{static_cast<int64_t>(lengths.size()), shape.num_blocks}),
        past(lengths.size(), 0) {
    storage.fill_constant(std::numeric_limits<double>::quiet_NaN());
    table.fill_constant(-1);
    int64_t next = shape.num_blocks;
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int64_t b = 0; b < kv_cache_blocks(lengths[s]); ++b) {
        table.set(static_cast<int64_t>(s), b, static_cast<double>(--next));
      }
    }
  }
  static int64_t blocks_for(const std::vector<int32_t>& lengths) {
    int64_t blocks = 0;
    for (const int32_t length : lengths) blocks += kv_cache_blocks(length);
    return blocks;
  }
};

/// Appends rows [past, past + count[s]) of every sequence of `data` and attends to them, into its
/// y.
void step(device::Device& device, AttentionData& data, Cache& cache,
          const std::vector<int32_t>& count, std::string_view only = {},
          Numerics numerics = Numerics::exact) {
  const AttentionCase& c = data.shape;
  const std::vector<int32_t> cu = AttentionData::offsets(count);
  TestTensor qkv(data.dtype, Shape{cu.back(), data.qkv.columns()}, 1);
  TestTensor y(data.dtype, Shape{cu.back(), data.y.columns()}, 3);
  const auto from = [&](size_t s, int64_t row) { return data.cu_seqlens[s] + cache.past[s] + row; };
  for (size_t s = 0; s < count.size(); ++s) {
    for (int64_t row = 0; row < count[s]; ++row) {
      for (int64_t col = 0; col < qkv.columns(); ++col) {
        qkv.set(cu[s] + row, col, data.qkv.at(from(s, row), col));
      }
    }
  }
  Exec exec(device, numerics);
  exec.only = only == "bf16_dot" ? std::string_view() : only;  // of attention alone
  const ConstView in = qkv.view();
  const CachedSequences sequences{.cu_seqlens = cu,
                                  .past = cache.past,
                                  .cu_seqlens_device = {},
                                  .past_device = {},
                                  .block_table_SM = cache.table.view()};
  kv_cache_append(exec, {.shape = cache.shape,
                         .cache = cache.storage.view(),
                         .sequences = sequences,
                         .k_TKD = keys(in, c.num_heads, c.num_kv_heads, c.head_size),
                         .v_TKD = values(in, c.num_heads, c.num_kv_heads, c.head_size)});
  exec.only = only;
  attention_cached(exec, {.shape = cache.shape,
                          .cache = cache.storage.view(),
                          .sequences = sequences,
                          .scale = data.scale(),
                          .q_TND = queries(in, c.num_heads, c.num_kv_heads, c.head_size),
                          .y_TND = heads(y.view(), c.num_heads, c.head_size),
                          .window_left = c.window_left,
                          .softcap = c.softcap});
  for (size_t s = 0; s < count.size(); ++s) {
    for (int64_t row = 0; row < count[s]; ++row) {
      for (int64_t col = 0; col < y.columns(); ++col) {
        data.y.set(from(s, row), col, y.at(cu[s] + row, col));
      }
    }
    cache.past[s] += count[s];
  }
}

/// All of `data` through a cache in calls of at most `chunk` tokens per sequence.
void run_cached(device::Device& device, AttentionData& data, Cache& cache, int32_t chunk,
                std::string_view only = {}, Numerics numerics = Numerics::exact) {
  data.y.fill_constant(std::numeric_limits<double>::quiet_NaN());
  for (;;) {
    std::vector<int32_t> count;
    for (size_t s = 0; s < cache.past.size(); ++s) {
      count.push_back(std::min(chunk, data.shape.lengths[s] - cache.past[s]));
    }
    if (*std::max_element(count.begin(), count.end()) == 0) return;
    step(device, data, cache, count, only, numerics);
  }
}

std::vector<AttentionCase> cached_cases() {
  return {{"one_head", {130}, 1, 1, 64},
          {"ragged", {65, 1, 100, 0}, 3, 3, 20},
          {"grouped", {70, 129}, 6, 2, 48},
          {"one_group", {90}, 20, 1, 33},
          {"window", {200, 70}, 4, 2, 24, true, 0, 30},
          {"window_of_blocks", {330}, 2, 1, 16, true, 0, 127},
          {"window_of_itself", {70}, 1, 1, 16, true, 0, 0},
          {"softcap", {100, 7}, 2, 1, 40, true, 0, -1, -1, 1.5f}};
}

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

/// Gives up the blocks that no later token of a window of `left` sees: spoils them and their table
/// entries.
void free_blocks(Cache& cache, int64_t left) {
  const KvCacheShape& shape = cache.shape;
  const int64_t elements = kv_cache_elements(shape) / shape.num_blocks;
  for (size_t s = 0; s < cache.past.size(); ++s) {
    for (int64_t b = 0; (b + 1) * kKeyBlock <= cache.past[s] - left; ++b) {
      const auto block = static_cast<int64_t>(cache.table.at(static_cast<int64_t>(s), b));
      for (int64_t i = 0; i < elements && block >= 0; ++i) {
        cache.storage.set(block * elements + i, std::numeric_limits<double>::quiet_NaN());
      }
      cache.table.set(static_cast<int64_t>(s), b, -1);
    }
  }
}

TEST(KvCache, BlocksBeforeTheWindowMayBeFreed) {
  for (const AttentionCase& shape : cached_cases()) {
    if (shape.window_left < 0) continue;
    AttentionData whole(shape, DType::f32);
    const auto one = device::make_cpu_device(1);
    whole.forward(*one);
    for (const int32_t chunk : {1, 17, 64, 100}) {
      for (const std::string_view entry : {"blocks", "reference"}) {
        AttentionData data(shape, DType::f32);
        Cache cache(DType::f32, shape.num_kv_heads, shape.head_size, shape.lengths);
        for (bool more = true; more;) {
          std::vector<int32_t> count;
          for (size_t s = 0; s < cache.past.size(); ++s) {
            count.push_back(std::min(chunk, shape.lengths[s] - cache.past[s]));
          }
          more = *std::max_element(count.begin(), count.end()) > 0;
          step(*one, data, cache, count, entry);
          free_blocks(cache, shape.window_left);
        }
        if (entry == "blocks") {
          testing::expect_same_bits(data.y, whole.y, shape.name);
        } else {
          testing::expect_close(data.y, whole.y, 1e-5, shape.name);
        }
      }
    }
  }
}

TEST(KvCache, TraceCountsTheWindow) {
  const auto traced = device::make_trace_device({device::DeviceKind::cpu, device::Isa::avx2, 3});
  device::Recorder recorder;
  traced->set_recorder(&recorder);
  AttentionData data({"", {200, 70}, 4, 2, 24, true, 0, 30}, DType::f32);
  Cache cache(DType::f32, 2, 24, data.shape.lengths);
  cache.past = {150, 20};
  step(*traced, data, cache, {50, 50});
  ASSERT_EQ(recorder.records().size(), 2u);
  const device::Work& work = recorder.records()[1].work;
  // The second sequence's first 11 tokens see what there is: 21 to 31 keys.
  const double pairs = 50 * 31 + (21 + 31) * 11 / 2 + 39 * 31;
  EXPECT_EQ(work.flops, 4 * 24 * 4 * pairs);
  EXPECT_EQ(work.bytes_read, (100 * 4 * 24 + 2 * (80 + 70) * 2 * 24) * 4);
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

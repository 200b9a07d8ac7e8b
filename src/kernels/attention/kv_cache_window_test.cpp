// SPDX-License-Identifier: Apache-2.0
// The KV cache with windows: blocks that no later token sees may be freed, and the traced cost.
#include <gtest/gtest.h>

#include "device/recorder.h"
#include "kernels/attention/kv_cache_cases.h"

namespace megalith::kernels {
namespace {

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

/// `data` through a cache in calls of at most `chunk` tokens, giving up blocks after each.
void run_freeing(device::Device& device, AttentionData& data, int32_t chunk,
                 std::string_view entry) {
  const AttentionCase& shape = data.shape;
  Cache cache(data.dtype, shape.num_kv_heads, shape.head_size, shape.lengths);
  for (bool more = true; more;) {
    std::vector<int32_t> count;
    for (size_t s = 0; s < cache.past.size(); ++s) {
      count.push_back(std::min(chunk, shape.lengths[s] - cache.past[s]));
    }
    more = *std::max_element(count.begin(), count.end()) > 0;
    step(device, data, cache, count, entry);
    free_blocks(cache, shape.window_left);
  }
}

TEST(KvCache, BlocksBeforeTheWindowMayBeFreed) {
  const auto device = device::make_cpu_device(1);
  for (const AttentionCase& shape : cached_cases()) {
    if (shape.window_left < 0) continue;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      AttentionData whole(shape, dtype);
      whole.forward(*device);
      for (const int32_t chunk : {1, 17, 64, 100}) {
        AttentionData data(shape, dtype), freed(shape, dtype), kept(shape, dtype);
        run_freeing(*device, data, chunk, "");
        testing::expect_same_bits(data.y, whole.y, shape.name);
        run_freeing(*device, freed, chunk, "reference");
        Cache cache(dtype, shape.num_kv_heads, shape.head_size, shape.lengths);
        run_cached(*device, kept, cache, chunk, "reference");
        testing::expect_same_bits(freed.y, kept.y, shape.name + " reference");
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

}  // namespace
}  // namespace megalith::kernels

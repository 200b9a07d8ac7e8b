// SPDX-License-Identifier: Apache-2.0
// A cache to test with, and runs of attention's data through it. For tests only.
#pragma once

#include <limits>

#include "kernels/attention/attention_cases.h"
#include "kernels/attention/kv_cache.h"

namespace megalith::kernels {

/// A cache whose unused storage is NaN and whose blocks are dealt out of order.
struct Cache {
  KvCacheShape shape;
  testing::TestTensor storage, table;
  std::vector<int32_t> past;

  Cache(DType dtype, int64_t num_kv_heads, int64_t head_size, const std::vector<int32_t>& lengths)
      : shape{dtype, num_kv_heads, head_size, blocks_for(lengths)},
        storage(dtype, Shape{kv_cache_elements(shape)}),
        table(DType::i32, Shape{static_cast<int64_t>(lengths.size()), shape.num_blocks}),
        past(lengths.size(), 0) {
    // Scales of i8 that are not there are not numbers either.
    storage.fill_constant(dtype == DType::i8 ? -1 : std::numeric_limits<double>::quiet_NaN());
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

/// Appends rows [past, past + count[s]) of every sequence of `data` and attends to them, into the y
/// of `data`.
inline void step(device::Device& device, AttentionData& data, Cache& cache,
                 const std::vector<int32_t>& count, std::string_view only = {}) {
  const AttentionCase& c = data.shape;
  const std::vector<int32_t> cu = AttentionData::offsets(count);
  testing::TestTensor qkv(data.dtype, Shape{cu.back(), data.qkv.columns()}, 1);
  testing::TestTensor y(data.dtype, Shape{cu.back(), data.y.columns()}, 3);
  const auto from = [&](size_t s, int64_t row) { return data.cu_seqlens[s] + cache.past[s] + row; };
  for (size_t s = 0; s < count.size(); ++s) {
    for (int64_t row = 0; row < count[s]; ++row) {
      for (int64_t col = 0; col < qkv.columns(); ++col) {
        qkv.set(cu[s] + row, col, data.qkv.at(from(s, row), col));
      }
    }
  }
  Exec exec(device);
  exec.only = only;
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
  attention_cached(exec, {.shape = cache.shape,
                          .cache = cache.storage.view(),
                          .sequences = sequences,
                          .scale = data.scale(),
                          .q_TND = queries(in, c.num_heads, c.num_kv_heads, c.head_size),
                          .y_TND = heads(y.view(), c.num_heads, c.head_size),
                          .window_left = c.window_left,
                          .softcap = c.softcap,
                          .bias = data.bias()});
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
inline void run_cached(device::Device& device, AttentionData& data, Cache& cache, int32_t chunk,
                       std::string_view only = {}) {
  data.y.fill_constant(std::numeric_limits<double>::quiet_NaN());
  for (;;) {
    std::vector<int32_t> count;
    for (size_t s = 0; s < cache.past.size(); ++s) {
      count.push_back(std::min(chunk, data.shape.lengths[s] - cache.past[s]));
    }
    if (*std::max_element(count.begin(), count.end()) == 0) return;
    step(device, data, cache, count, only);
  }
}

inline std::vector<AttentionCase> cached_cases() {
  return {{"one_head", {130}, 1, 1, 64},
          {"ragged", {65, 1, 100, 0}, 3, 3, 20},
          {"grouped", {70, 129}, 6, 2, 48},
          {"one_group", {90}, 20, 1, 33},
          {"heads_of_1", {70}, 3, 3, 1},
          {"heads_of_5", {70, 9}, 8, 1, 5},
          {"heads_of_12", {66, 40}, 9, 3, 12},
          {"heads_of_80", {70}, 5, 1, 80},
          {"heads_of_112", {65, 3}, 3, 3, 112},
          {"heads_of_256", {70}, 3, 1, 256},
          {"several_key_blocks", {300, 193}, 4, 2, 64},
          {"window", {200, 70}, 4, 2, 24, true, 0, 30},
          {"window_of_blocks", {330}, 2, 1, 16, true, 0, 127},
          {"window_of_itself", {70}, 1, 1, 16, true, 0, 0},
          {"softcap", {100, 7}, 2, 1, 40, true, 0, -1, -1, 1.5f},
          biased({"bias", {300, 70}, 4, 2, 24}, {32, 128, false}),
          biased({"bias_window", {150}, 6, 2, 16, true, 0, 90}, {8, 5, false}),
          biased({"bias_of_both_sides", {90}, 1, 1, 16}, {8, 40, true})};
}

}  // namespace megalith::kernels

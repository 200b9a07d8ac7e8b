// SPDX-License-Identifier: Apache-2.0
// Checks, cost and choice of implementation for kv_cache_append and attention_cached.
#include "kernels/attention/kv_cache.h"

#include "kernels/attention/attention_bf16.h"
#include "kernels/attention/kv_cache_layout.h"
#include "kernels/elementary/run_chosen.h"

namespace megalith::kernels {

template <>
struct HostLists<KvCacheAppend> {
  explicit HostLists(KvCacheAppend& a) : lists(a.sequences.cu_seqlens, a.sequences.past) {}
  SequenceLists lists;
};

template <>
struct HostLists<AttentionCached> {
  explicit HostLists(AttentionCached& a) : lists(a.sequences.cu_seqlens, a.sequences.past) {}
  SequenceLists lists;
};

namespace {

/// `window_left`: how many positions before a sequence's first new one the call touches: their
/// blocks, and those of the new ones, need a place.
void check_cache(const Exec& exec, const KvCacheShape& shape, const ConstView& cache,
                 const CachedSequences& sequences, int64_t num_rows, int64_t window_left) {
  MEGA_CHECK(is_narrow(shape.dtype) || shape.dtype == DType::i8 || shape.dtype == DType::f64,
             "a cache of {}", shape.dtype);
  MEGA_CHECK(cache.dtype() == shape.dtype, "the cache is {} and not {}", cache.dtype(),
             shape.dtype);
  MEGA_CHECK_EQ(cache.num_elements(), kv_cache_elements(shape));
  check_cu_seqlens(sequences.cu_seqlens, num_rows);
  const size_t count = sequences.cu_seqlens.size() - 1;
  MEGA_CHECK_EQ(sequences.past.size(), count);
  MEGA_CHECK(exec.device.target().kind == device::DeviceKind::cpu ||
                 (!sequences.cu_seqlens_device.absent() && !sequences.past_device.absent()),
             "cu_seqlens_device and past_device are needed on this kind of device");
  const ConstView& table = sequences.block_table_SM;
  MEGA_CHECK(
      count == 0 || (table.dtype() == DType::i32 && table.size(0) >= static_cast<int64_t>(count)),
      "the block table needs i32 rows for {} sequences", count);
  for (size_t s = 0; s < count; ++s) {
    const int64_t added = sequences.cu_seqlens[s + 1] - sequences.cu_seqlens[s];
    if (added == 0) continue;
    const int64_t blocks = kv_cache_blocks(sequences.past[s] + added);
    MEGA_CHECK(sequences.past[s] >= 0 && blocks <= table.size(1),
               "sequence {} of {} + {} positions needs {} blocks, the table has {}", s,
               sequences.past[s], added, blocks, table.size(1));
    if (exec.device.kind() != device::DeviceKind::cpu) continue;
    for (int64_t b = block_start(std::max<int64_t>(0, sequences.past[s] - window_left)) / kKeyBlock;
         b < blocks; ++b) {
      const int32_t block = table.row<int32_t>(static_cast<int64_t>(s))[b];
      MEGA_CHECK(block >= 0 && block < shape.num_blocks, "block {} of sequence {} is {} of {}", b,
                 s, block, shape.num_blocks);
    }
  }
}

bool keeps(DType dtype) { return is_narrow(dtype) || dtype == DType::i8; }
std::string_view refuse_append(const Exec&, const KvCacheAppend& a) {
  return keeps(a.shape.dtype) && is_narrow(a.k_TKD.dtype) ? "" : "needs f32, bf16 or f16";
}
std::string_view refuse_cached(const Exec&, const AttentionCached& a) {
  return keeps(a.shape.dtype) && is_narrow(a.q_TND.dtype) ? "" : "needs f32, bf16 or f16";
}
std::string_view refuse_cached_bf16(const Exec&, const AttentionCached& a) {
  return a.shape.dtype == DType::bf16 && a.q_TND.dtype == DType::bf16 ? "" : "needs bf16";
}
template <typename Arguments>
std::string_view accept(const Exec&, const Arguments&) {
  return {};
}

constexpr Implementation<KvCacheAppend> kAppend[] = {
    {"blocks", refuse_append, kv_cache_append_blocks},
    {"reference", accept<KvCacheAppend>, kv_cache_append_reference},
};
constexpr Implementation<AttentionCached> kCached[] = {
    {"bf16", refuse_cached_bf16, attention_cached_bf16, attention_cached_bf16_scratch},
    {"blocks", refuse_cached, attention_cached_blocks, attention_cached_scratch},
    {"reference", accept<AttentionCached>, attention_cached_reference},
};

void check_cached(const Exec& exec, const AttentionCached& a) {
  const ConstHeadsView& q = a.q_TND;
  MEGA_CHECK(a.window_left >= -1, "a window of {}", a.window_left);
  MEGA_CHECK(a.softcap >= 0, "a softcap of {}", a.softcap);
  check_cache(exec, a.shape, a.cache, a.sequences, q.num_rows,
              a.window_left < 0 ? kUnlimited : a.window_left);
  MEGA_CHECK(q.num_heads > 0 && q.num_heads % a.shape.num_kv_heads == 0,
             "{} query heads over {} key heads", q.num_heads, a.shape.num_kv_heads);
  check_heads(q, q.num_rows, q.num_heads, a.shape.head_size, q.dtype, "q");
  check_heads(a.y_TND, q.num_rows, q.num_heads, q.head_size, q.dtype, "y");
  check_bias(a.bias, q, a.softcap);
}

}  // namespace

int64_t kv_cache_elements(const KvCacheShape& shape) {
  return shape.num_blocks * shape.num_kv_heads * kv_block_elements(shape);
}
int64_t kv_cache_bytes(const KvCacheShape& shape) {
  return kv_cache_elements(shape) * bytes_of(shape.dtype);
}

void kv_cache_append(Exec& exec, const KvCacheAppend& a) {
  const int64_t num_rows = a.k_TKD.num_rows;
  check_cache(exec, a.shape, a.cache, a.sequences, num_rows, 0);
  check_heads(a.k_TKD, num_rows, a.shape.num_kv_heads, a.shape.head_size, a.k_TKD.dtype, "k");
  check_heads(a.v_TKD, num_rows, a.shape.num_kv_heads, a.shape.head_size, a.k_TKD.dtype, "v");
  const int64_t positions = num_rows * a.shape.num_kv_heads;
  const device::Work work{.bytes_read = 2 * positions * a.shape.head_size * bytes_of(a.k_TKD.dtype),
                          .bytes_written = positions * kv_position_bytes(a.shape)};
  run_chosen<KvCacheAppend>(exec, "kv_cache_append", work, kAppend, a);
}

void attention_cached(Exec& exec, const AttentionCached& a) {
  check_cached(exec, a);
  const ConstHeadsView& q = a.q_TND;
  double pairs = 0;
  int64_t positions = 0;  // cached keys that are read
  for (size_t s = 0; s < a.sequences.past.size(); ++s) {
    const int64_t past = a.sequences.past[s];
    const int64_t added = a.sequences.cu_seqlens[s + 1] - a.sequences.cu_seqlens[s];
    if (added == 0) continue;
    const Sight sight = sight_of(a, static_cast<int64_t>(s));
    pairs += static_cast<double>(sight.pairs(past, past + added));
    positions += sight.keys_of(Range{past, past + added}).size();
  }
  const int64_t row_bytes = q.num_rows * q.num_heads * q.head_size * bytes_of(q.dtype);
  const ConstView& table = a.bias.table_BN;
  const device::Work work{
      .flops = 4 * pairs * static_cast<double>(q.num_heads * q.head_size),
      .bytes_read = row_bytes + (table.absent() ? 0 : table.bytes()) +
                    positions * a.shape.num_kv_heads * kv_position_bytes(a.shape),
      .bytes_written = row_bytes};
  run_chosen<AttentionCached>(exec, "attention_cached", work, kCached, a);
}

}  // namespace megalith::kernels

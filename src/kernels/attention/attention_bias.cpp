// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention_bias.h"

#include "kernels/attention/attention_work.h"
#include "kernels/elementary/reference_access.h"

namespace megalith::kernels {
namespace {

/// Columns for positions up to `longest`: as far as distances reach or have buckets of their own.
DistanceBias columns_of(const RelativeBuckets& buckets, int64_t longest) {
  const int64_t reach = std::clamp<int64_t>(longest - 1, 0, buckets.max_distance);
  return {nullptr, (buckets.bidirectional ? 2 : 1) * reach + 1, reach};
}

std::vector<int64_t> buckets_of(const RelativeBuckets& buckets, const DistanceBias& columns) {
  std::vector<int64_t> of(static_cast<size_t>(columns.columns));
  for (int64_t r = 0; r < columns.columns; ++r)
    of[static_cast<size_t>(r)] = buckets.of(r - columns.zero);
  return of;
}

}  // namespace

// Scratch is a function of shapes alone: a plan is made with other sequences in as many rows.
int64_t longest_sequence(const AttentionForward& a) { return a.q_TND.num_rows; }
int64_t longest_sequence(const AttentionBackward& a) { return a.q_TND.num_rows; }
int64_t longest_sequence(const AttentionCached& a) {
  const CachedSequences& s = a.sequences;
  int64_t length = 0;
  for (size_t i = 0; i < s.past.size(); ++i)
    length = std::max<int64_t>(length, s.past[i] + s.cu_seqlens[i + 1] - s.cu_seqlens[i]);
  return length;
}

void check_bias(const AttentionBias& bias, const ConstHeadsView& q, float softcap) {
  if (bias.table_BN.absent()) return;
  const DType dtype = bias.table_BN.dtype();
  MEGA_CHECK(q.dtype == DType::f64 ? dtype == DType::f64 : dtype == DType::f32 || is_half(dtype),
             "biases in {}", dtype);
  const std::string fault = bias.buckets.fault();
  MEGA_CHECK(fault.empty(), "{}", fault);
  MEGA_CHECK(bias.table_BN.shape() == (Shape{bias.buckets.count, q.num_heads}),
             "biases {} of {} buckets and {} heads", bias.table_BN.shape(), bias.buckets.count,
             q.num_heads);
  MEGA_CHECK(softcap == 0, "capped scores with biases by distance");
}

double bias_of(const AttentionBias& bias, int64_t head, int64_t distance) {
  if (bias.table_BN.absent()) return 0;
  return read_double(bias.table_BN, bias.buckets.of(distance), head);
}

int64_t distance_bias_bytes(const AttentionBias& bias, int64_t longest) {
  if (bias.table_BN.absent()) return 0;
  const int64_t floats = bias.table_BN.size(1) * columns_of(bias.buckets, longest).columns;
  return round_up(floats * bytes_of(DType::f32), device::kAlignment);
}

DistanceBias spread_bias(const AttentionBias& bias, int64_t longest, std::byte* scratch) {
  if (bias.table_BN.absent()) return {};
  auto* data = reinterpret_cast<float*>(scratch);
  DistanceBias spread = columns_of(bias.buckets, longest);
  spread.data = data;
  const std::vector<int64_t> bucket = buckets_of(bias.buckets, spread);
  std::vector<float> own(static_cast<size_t>(bias.buckets.count));  // of a head, by bucket
  for (int64_t h = 0; h < bias.table_BN.size(1); ++h) {
    for (int64_t b = 0; b < bias.buckets.count; ++b)
      own[static_cast<size_t>(b)] = static_cast<float>(read_double(bias.table_BN, b, h));
    for (size_t r = 0; r < bucket.size(); ++r) *data++ = own[static_cast<size_t>(bucket[r])];
  }
  return spread;
}

/// A block may have a single key, so there may be as many blocks as rows.
int64_t BiasSums::bytes(const AttentionBackward& a, int64_t /*block*/) {
  if (a.dtable_BN.absent()) return 0;
  const int64_t floats = a.k_TKD.num_rows * a.dtable_BN.num_elements();
  return round_up(floats * bytes_of(DType::f32), device::kAlignment);
}

BiasSums::BiasSums(const AttentionBackward& a, int64_t block, std::byte* scratch) {
  if (a.dtable_BN.absent()) return;
  data_ = reinterpret_cast<float*>(scratch);
  heads_ = a.dtable_BN.size(1);
  buckets_ = a.dtable_BN.size(0);
  first_blocks_.push_back(0);
  for (int64_t s = 0; s < num_sequences(a.sequences); ++s) {
    const int64_t keys = rows_of(a.sequences, s).sight.keys;
    first_blocks_.push_back(first_blocks_.back() + ceil_div(keys, block));
  }
  columns_ = columns_of(a.bias.buckets, longest_sequence(a));
  bucket_of_column_ = buckets_of(a.bias.buckets, columns_);
}

void BiasSums::fold(int64_t block, int64_t head, const float* diagonals, int64_t step,
                    int64_t lowest, int64_t count) const {
  float* const sums = data_ + (block * heads_ + head) * buckets_;
  std::fill_n(sums, buckets_, 0.0f);
  for (int64_t n = 0; n < count; ++n) {
    const auto column = static_cast<size_t>(columns_.column(lowest + n));
    sums[bucket_of_column_[column]] += diagonals[n * step];
  }
}

void BiasSums::add_up(Exec& exec, const View& dtable_BN) const {
  const int64_t blocks = first_blocks_.back();
  exec.device.pool().for_range(buckets_, 1, [&](Range part, int) {
    for (int64_t b = part.begin; b < part.end; ++b) {
      float* const sums = dtable_BN.row<float>(b);
      for (int64_t block = 0; block < blocks; ++block) {
        for (int64_t h = 0; h < heads_; ++h) sums[h] += data_[(block * heads_ + h) * buckets_ + b];
      }
    }
  });
}

}  // namespace megalith::kernels

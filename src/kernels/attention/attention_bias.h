// SPDX-License-Identifier: Apache-2.0
// Biases of scores on the CPU: spread out by distance before a call, and their gradient's sums by
// block of keys until all blocks are done. Internal.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace megalith::kernels {

struct AttentionCached;

/// The biases of a call by head and distance, in f32. The first and the last column stand for all
/// distances beyond them too.
struct DistanceBias {
  const float* data = nullptr;  // [N, columns]; null: none
  int64_t columns = 0;
  int64_t zero = 0;  // column of distance 0

  explicit operator bool() const { return data != nullptr; }
  int64_t column(int64_t distance) const {
    return std::clamp<int64_t>(zero + distance, 0, columns - 1);
  }
  /// Those of `count` distances from `distance` up; in `room` unless they lie side by side.
  const float* run(int64_t head, int64_t distance, int64_t count, float* room) const {
    const float* row = data + head * columns;
    const int64_t first = zero + distance;
    if (first >= 0 && first + count <= columns) return row + first;
    const int64_t before = std::clamp<int64_t>(-first, 0, count);
    const int64_t end = std::clamp<int64_t>(columns - first, before, count);
    std::fill_n(room, before, row[0]);
    if (end > before) std::copy_n(row + first + before, end - before, room + before);
    std::fill(room + end, room + count, row[columns - 1]);
    return room;
  }
  /// Those of `count` distances from `distance` down.
  void run_down(int64_t head, int64_t distance, int64_t count, float* to) const {
    const float* row = data + head * columns;
    const int64_t first = zero + distance;
    const int64_t beyond = std::clamp<int64_t>(first - columns + 1, 0, count);
    const int64_t end = std::clamp<int64_t>(first + 1, beyond, count);
    std::fill_n(to, beyond, row[columns - 1]);
    if (end > beyond)
      std::reverse_copy(row + first + 1 - end, row + first + 1 - beyond, to + beyond);
    std::fill(to + end, to + count, row[0]);
  }
};

/// Checks a table beside q's heads.
void check_bias(const AttentionBias& bias, const ConstHeadsView& q, float softcap);
/// The specification: what the table has for a distance; 0 without.
double bias_of(const AttentionBias& bias, int64_t head, int64_t distance);
/// Bytes in front of a call's scratch for the biases of positions up to `longest`; 0 without.
int64_t distance_bias_bytes(const AttentionBias& bias, int64_t longest);
/// Overwrites them.
DistanceBias spread_bias(const AttentionBias& bias, int64_t longest, std::byte* scratch);
/// An upper bound of a sequence's positions.
int64_t longest_sequence(const AttentionForward& a);
int64_t longest_sequence(const AttentionBackward& a);
int64_t longest_sequence(const AttentionCached& a);

/// The sums of bias gradients that backward keeps: of each block of keys, in the order of sequences
/// and positions, [blocks, N, buckets] in f32.
class BiasSums {
 public:
  BiasSums() = default;  // of none
  BiasSums(const AttentionBackward& a, int64_t block, std::byte* scratch);

  /// 0 without.
  static int64_t bytes(const AttentionBackward& a, int64_t block);
  explicit operator bool() const { return data_ != nullptr; }
  /// Number of a sequence's first block.
  int64_t first_block(int64_t sequence) const {
    return first_blocks_[static_cast<size_t>(sequence)];
  }
  /// The sums of one head and block of keys, from those of its diagonals: diagonals[n * step] has
  /// that of distance `lowest` + n. A bucket's diagonals add up in this order.
  void fold(int64_t block, int64_t head, const float* diagonals, int64_t step, int64_t lowest,
            int64_t count) const;
  /// dtable += the sums of all blocks, in their order.
  void add_up(Exec& exec, const View& dtable_BN) const;

 private:
  float* data_ = nullptr;
  int64_t heads_ = 0, buckets_ = 0;
  std::vector<int64_t> first_blocks_;  // and the number of all blocks
  DistanceBias columns_;               // without data
  std::vector<int64_t> bucket_of_column_;
};

}  // namespace megalith::kernels

// SPDX-License-Identifier: Apache-2.0
// Which corpus sample n comes from, as a pure function of n: no table, no state, O(log K) integer
// operations for K corpora. The corpora are the leaves of a balanced binary tree. At a node of
// weight W = W_left + W_right, the node's sample n goes left if and only if
//   floor((n + 1) W_left / W) > floor(n W_left / W)
// and is then sample floor(n W_left / W) of the left child, else sample n - floor(n W_left / W) of
// the right child. Among the first n samples each child gets its share to within one, so each
// corpus gets its share to within the depth of the tree, and its samples are numbered without gaps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megalith::data {

class Blend {
 public:
  struct Choice {
    int64_t corpus = 0;
    int64_t number = 0;  // of this sample among those of the corpus
  };

  /// Exact integer weights >= 0 with a positive sum below 2^62.
  explicit Blend(std::span<const int64_t> weights);
  /// Scales the weights by one power of two so that the largest has 46 bits, and rounds them (a
  /// positive weight to at least 1). UserError for negative, non-finite or all-zero weights.
  static Blend from_weights(std::span<const double> weights);

  int64_t num_corpora() const { return static_cast<int64_t>(sums_.size()) - 1; }
  /// Sample n, 0 <= n < 2^62.
  Choice choose(int64_t n) const;
  /// How many of the samples [0, n) come from `corpus`.
  int64_t count(int64_t corpus, int64_t n) const;

 private:
  std::vector<int64_t> sums_;  // sums_[i]: weight of the corpora before i
};

}  // namespace megalith::data

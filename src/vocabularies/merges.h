// SPDX-License-Identifier: Apache-2.0
// Merges of vocabularies that have none: those that rank tokens (tiktoken) or score them
// (SentencePiece). There any two neighbours become one token if the vocabulary has it, the best
// token first and of equals the leftmost; so every way to make a token of two others is a merge
// with the token's rank.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace megalith::vocabularies {

/// Limits of a vocabulary; published ones stay far below.
inline constexpr size_t kMaxTokenBytes = 1024;              // of one that merges make
inline constexpr size_t kMaxTokensBytes = size_t{1} << 24;  // of all of them
inline constexpr size_t kMaxMerges = size_t{1} << 23;

struct MergeToken {
  std::string_view text;
  int32_t id;
  double score = 0;  // of one that is made: higher ones first
};

struct Merges {
  std::vector<std::pair<int32_t, int32_t>> pairs;  // by rank
  std::vector<uint32_t> ranks;                     // of pairs[i]: the place of the first equal one
};

/// All merges of two of `parts` that make one of `made`. UserError, naming `where`, beyond the
/// limits.
Merges find_merges(std::span<const MergeToken> parts, std::vector<MergeToken> made,
                   std::string_view where);

}  // namespace megalith::vocabularies

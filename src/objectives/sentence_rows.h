// SPDX-License-Identifier: Apache-2.0
// Which sentences make a sample of a sentence pair: Megatron's sample builder, value by value.
// Documents are walked in order and their sentences gathered until they have as many tokens as
// wanted, which is now and then (1 of kShortRatio times) a number drawn from 2 up instead of
// all that fit. A document's last two sentences are never parted. Documents of fewer sentences than
// `least_sentences`, or with a sentence of more than kLongSentence tokens, are left out.
//
// The draws are those of std::mt19937, then the rows are shuffled with std::mt19937_64 of seed + 1;
// both are fixed by the C++ standard. Source: megatron-core, datasets/helpers.cpp, build_mapping of
// one epoch with a short_seq_prob of 0.1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megalith::objectives {

inline constexpr int64_t kLongSentence = 512;
inline constexpr uint32_t kShortRatio = 10;

struct SentenceRow {
  int64_t begin = 0, end = 0;  // sentences of the corpus
  int32_t wanted = 0;          // most tokens that the pair keeps
  int64_t document = 0;        // by its number among those given
  friend bool operator==(const SentenceRow&, const SentenceRow&) = default;
};

struct SentenceRowOptions {
  int64_t most_tokens = 0;  // of a pair, without special tokens
  int64_t least_sentences = 2;
  uint32_t seed = 0;
};

/// Document d has the sentences [documents[d], documents[d + 1]); `lengths`: tokens of each
/// sentence from documents[0] on. In the order of the corpus.
std::vector<SentenceRow> sentence_rows(std::span<const int32_t> lengths,
                                       std::span<const int64_t> documents,
                                       const SentenceRowOptions& options);

/// Megatron's order of them.
void shuffle_rows(std::span<SentenceRow> rows, uint32_t seed);

}  // namespace megalith::objectives

// SPDX-License-Identifier: Apache-2.0
// The substrings of words that are worth a piece: those that occur at least twice and that every
// further character would make rarer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text_training/word_counts.h"

namespace megalith::text {

struct Substring {
  std::string text;
  int64_t count;  // occurrences in the corpus
};

/// Of 2 to `most_characters` characters, the largest count times length first, at most `most`.
std::vector<Substring> repeated_substrings(const WordCounts& words, size_t most_characters,
                                           size_t most);

}  // namespace megalith::text

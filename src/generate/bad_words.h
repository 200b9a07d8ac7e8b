// SPDX-License-Identifier: Apache-2.0
// Words that are not to be written, as the runs of tokens that write them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace megalith::generate {

/// For SamplingOptions::bad_words: each word as a text begins with it, and as it follows a space.
/// UserError, naming it, where a word is empty or nothing but space.
std::vector<std::vector<int32_t>> runs_of_words(const text::Tokenizer& tokenizer,
                                                std::span<const std::string> words);

}  // namespace megalith::generate

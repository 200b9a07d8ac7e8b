// SPDX-License-Identifier: Apache-2.0
// The text samples of a training run: continuations of the recipe's prompts by the model as it
// stands, on the ranks that hold it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "report/samples.h"
#include "text/tokenizer.h"
#include "train/loop.h"

namespace megalith::apps {

/// Refuses, before the first step, text samples that could not be written later by a model of this
/// context; `path` is the recipe's.
void check_samples(const config::Recipe& recipe, const std::optional<text::Tokenizer>& tokenizer,
                   int64_t context, const std::string& path);

/// Tokens of each of the recipe's prompts; none when it writes no samples.
std::vector<int64_t> prompt_lengths(const config::Recipe& recipe, const text::Tokenizer* tokenizer);

/// Continues each prompt on the ranks of the first data rank; the others give none. Collective over
/// those.
std::vector<report::TextSample> write_samples(engine::Engine& engine, int64_t step,
                                              const config::Recipe& recipe,
                                              const text::Tokenizer& tokenizer);

}  // namespace megalith::apps

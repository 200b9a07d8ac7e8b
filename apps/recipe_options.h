// SPDX-License-Identifier: Apache-2.0
// The recipe argument that several commands take: a file and `--set key.path=value`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "config/recipe.h"
#include "text/tokenizer.h"

namespace megalith::apps {

struct RecipeOptions {
  std::string path;
  std::vector<std::string> overrides;
  void declare(CLI::App& command);
  /// With what other options change behind `--set`.
  config::Recipe load(const std::vector<settings::Override>& more = {}) const;
};

/// The recipe's tokenizer; nothing when it names none.
std::optional<text::Tokenizer> tokenizer_of(const config::Recipe& recipe);
/// Its number of tokens; 0 when the recipe names none.
int64_t vocab_of(const config::Recipe& recipe);
/// The recipe's number of threads: its own, or all cores this process may use.
int threads_of(const config::Recipe& recipe);

}  // namespace megalith::apps

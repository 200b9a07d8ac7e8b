// SPDX-License-Identifier: Apache-2.0
// What text is asked of a model, on the command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/checkpoint_options.h"
#include "apps/command.h"
#include "apps/grammar/options.h"
#include "generate/continuation.h"

namespace megalith::apps {

struct GenerateOptions {
  CheckpointOptions checkpoint;
  std::optional<std::string> prompt, messages;  // one of them
  generate::GenerateOptions generate;
  GrammarOptions grammar;
  std::vector<std::string> bad_words;
  std::vector<std::string> biases;   // ID=VALUE
  std::optional<std::string> draft;  // another checkpoint
  int64_t draft_tokens = 4;
  std::string early_stopping = "false";  // as transformers spells it
  bool stream = false;

  void declare(CLI::App& command);
  /// For a model. UserError about what does not fit it, or each other.
  generate::GenerateOptions for_model(const store::ModelSource& source, bool json) const;
};

/// All that the text depends on.
std::string text_of(const generate::GenerateOptions& options);

}  // namespace megalith::apps

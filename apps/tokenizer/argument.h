// SPDX-License-Identifier: Apache-2.0
// The argument that names a tokenizer, in whatever kind of file.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "text/tokenizer.h"

namespace megalith::apps {

struct TokenizerArgument {
  std::string path, pattern;

  /// Adds --tokenizer, which is required, and --pattern.
  void declare(CLI::App& command);
  /// UserError or IntegrityError if there is no tokenizer at `path`.
  text::Tokenizer load() const;
};

}  // namespace megalith::apps

// SPDX-License-Identifier: Apache-2.0
#include "apps/tokenizer/argument.h"

#include "vocabularies/load_tokenizer.h"
#include "vocabularies/tiktoken_file.h"

namespace megalith::apps {

void TokenizerArgument::declare(CLI::App& command) {
  command
      .add_option(
          "--tokenizer", path,
          "tokenizer.json or its folder, a SentencePiece model, tekken.json, a GGUF file or "
          "tiktoken ranks")
      ->required();
  std::vector<std::string> names;
  for (const std::string_view name : vocabularies::tiktoken_patterns()) names.emplace_back(name);
  command.add_option("--pattern", pattern, "of tiktoken ranks: how text is cut into words")
      ->check(CLI::IsMember(names));
}

text::Tokenizer TokenizerArgument::load() const {
  return vocabularies::load_tokenizer(path, pattern);
}

}  // namespace megalith::apps

// SPDX-License-Identifier: Apache-2.0
// A tokenizer from any file that has one: what kind of file it is, is seen from its content.
#pragma once

#include <filesystem>
#include <string>

#include "text/tokenizer.h"

namespace megalith::vocabularies {

/// A tokenizer.json, a folder that has one (or else a tokenizer.model or a tekken.json), a
/// SentencePiece model, Mistral's tekken.json, a GGUF file, or a file of tiktoken ranks, which
/// needs a pattern (tiktoken_file.h); others must have none. UserError names the file and what is
/// wrong with it; IntegrityError a damaged GGUF file.
text::Tokenizer load_tokenizer(const std::filesystem::path& path, const std::string& pattern = "");

}  // namespace megalith::vocabularies

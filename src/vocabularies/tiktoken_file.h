// SPDX-License-Identifier: Apache-2.0
// A file of tiktoken ranks: a line for each token, its bytes in base64 and its rank. Neither the
// pattern nor the special tokens stand in it; those of published encodings are known by name.
#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace megalith::vocabularies {

/// gpt2, cl100k, o200k, llama3, qwen2.
std::vector<std::string_view> tiktoken_patterns();
/// `pattern` is one of them. UserError, naming `where`, if the file is not such a one.
text::Tokenizer read_tiktoken(std::string_view content, std::string_view pattern,
                              std::string_view where);
/// True if the first line is one of such a file.
bool looks_like_tiktoken(std::string_view content);

}  // namespace megalith::vocabularies

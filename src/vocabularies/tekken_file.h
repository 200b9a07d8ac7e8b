// SPDX-License-Identifier: Apache-2.0
// Mistral's tekken.json: tokens with their ranks, a pattern, and special tokens, which come first
// and which a text never makes. Where mistral-common adds names to those of old files, so is done
// here. Settings of images and sounds are passed over.
#pragma once

#include <string_view>

#include "text/tokenizer.h"

namespace megalith::vocabularies {

/// UserError, naming `where`, if the file is not such a one.
text::Tokenizer read_tekken(std::string_view json, std::string_view where);
/// True if it may be such a file rather than a tokenizer.json.
bool looks_like_tekken(std::string_view json);

}  // namespace megalith::vocabularies

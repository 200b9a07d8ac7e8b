// SPDX-License-Identifier: Apache-2.0
// The tokenizer inside a GGUF file: the keys tokenizer.ggml.*. Their `model` says which kind it is:
// llama (SentencePiece's BPE), t5 (its Unigram), gpt2 (byte-level BPE), bert (WordPiece).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "gguf/value.h"
#include "text/tokenizer.h"

namespace megalith::vocabularies {

/// UserError, naming `where`, if a key is missing or not what it must be, and if the kind of the
/// tokenizer or of its words is not known.
text::Tokenizer read_gguf_vocabulary(const gguf::Metadata& metadata, std::string_view where);

/// The files of a Hugging Face folder that say the rest: chat templates, and a
/// tokenizer_config.json with the names of special tokens. What is not as it should be is left out.
std::map<std::string, std::string> gguf_texts(const gguf::Metadata& metadata);

}  // namespace megalith::vocabularies

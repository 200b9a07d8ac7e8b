// SPDX-License-Identifier: Apache-2.0
// The parts of a tokenizer.json, each read from its own source file. Each is a UserError naming the
// component that is not understood.
#pragma once

#include "text/json_source.h"
#include "text/tokenizer_data.h"

namespace megalith::text {

inline constexpr size_t kMaxComponents = 64;  // of one stage, however deep they stand

[[noreturn]] void refuse(const JsonSource& source, std::string_view stage, std::string_view what);
/// The components of a stage in order, Sequences (whose members stand in `list`) resolved.
std::vector<JsonSource> components(const JsonSource& root, const char* stage, const char* list);

/// The file as JSON, of bounded size and depth and without repeated keys; it lives in `parser`.
JsonElement parse_tokenizer_json(std::string_view json, std::string_view where,
                                 simdjson::dom::parser& parser);
/// All that comes before the vocabulary. Needs the added tokens.
void read_stages(const JsonSource& root, TokenizerData& data);
/// All that comes after the vocabulary and the merges.
void complete_tokenizer(const JsonSource& root, TokenizerData& data);

/// The kind of the model and its options.
void read_model_options(const JsonSource& model, TokenizerData& data);
void read_normalizer(const JsonSource& root, TokenizerData& data);
/// Needs the kind of the model, and decides which BPE it is.
void read_pre_tokenizer(const JsonSource& root, TokenizerData& data);
/// Needs the vocabulary.
void read_post_processor(const JsonSource& root, TokenizerData& data);
void read_decoder(const JsonSource& root, TokenizerData& data);
/// Of a normalizer and a decoder that have the member "sentencepiece".
tokenize::SentencePieceNormalizer read_sentencepiece_normalizer(const JsonSource& root,
                                                                const TokenizerData& data);
SentencePieceDecoder read_sentencepiece_decoder(const JsonSource& options);

}  // namespace megalith::text

// SPDX-License-Identifier: Apache-2.0
// The kind of the model and its options.
#include "base/error.h"
#include "text/tokenizer_json_stages.h"

namespace megalith::text {
namespace {

void read_bpe_options(const JsonSource& model, TokenizerData& data) {
  double dropout = 0;
  if (model.has("dropout") &&
      (model.member("dropout").get(dropout) != simdjson::SUCCESS || dropout != 0))
    throw UserError("{}: model.dropout is not supported; set it to null", model.where());
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.has(key) && !model.string(key).empty())
      throw UserError("{}: model.{} is not supported; leave it out", model.where(), key);
  data.byte_fallback = model.boolean("byte_fallback", false);
  if (model.has("unk_token")) data.unk_token = model.string("unk_token");
  data.fuse_unk = model.boolean("fuse_unk", false);
  data.ignore_merges = model.boolean("ignore_merges", false);
}

void read_wordpiece_options(const JsonSource& model, TokenizerData& data) {
  tokenize::WordPieceOptions options;
  options.unknown = model.string("unk_token");
  options.continuing_prefix = model.string("continuing_subword_prefix");
  options.most_characters = model.whole("max_input_chars_per_word", options.most_characters);
  data.kind = ModelKind::wordpiece;
  data.wordpiece = tokenize::WordPieceModel(std::move(options), {});
}

// The unknown token is an id there, which is checked when the vocabulary is read.
void read_unigram_options(const JsonSource& model, TokenizerData& data) {
  data.kind = model.has("sentencepiece") ? ModelKind::sentencepiece_unigram : ModelKind::unigram;
  data.byte_fallback = model.boolean("byte_fallback", false);
}

void read_word_level_options(const JsonSource& model, TokenizerData& data) {
  data.kind = ModelKind::word_level;
  data.unk_token = model.string("unk_token");
}

// Old files do not name their model.
std::string guess_type(const JsonSource& model) {
  if (model.has("merges")) return "BPE";
  if (model.has("continuing_subword_prefix")) return "WordPiece";
  return model.has("vocab") && model.member("vocab").is_array() ? "Unigram" : "WordLevel";
}

}  // namespace

void read_model_options(const JsonSource& model, TokenizerData& data) {
  const std::string type = model.has("type") ? model.string("type") : guess_type(model);
  if (type == "BPE") return read_bpe_options(model, data);
  if (type == "WordPiece") return read_wordpiece_options(model, data);
  if (type == "Unigram") return read_unigram_options(model, data);
  if (type == "WordLevel") return read_word_level_options(model, data);
  throw UserError(
      "{}: the model \"{}\" is not supported; BPE, WordPiece, Unigram and WordLevel are",
      model.where(), type);
}

}  // namespace megalith::text

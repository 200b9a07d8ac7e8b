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

}  // namespace

// Old files have no type.
void read_model_options(const JsonSource& model, TokenizerData& data) {
  const std::string type = model.has("type") ? model.string("type") : "BPE";
  if (type == "BPE") return read_bpe_options(model, data);
  if (type == "WordPiece") return read_wordpiece_options(model, data);
  throw UserError("{}: the model \"{}\" is not supported; BPE and WordPiece are", model.where(),
                  type);
}

}  // namespace megalith::text

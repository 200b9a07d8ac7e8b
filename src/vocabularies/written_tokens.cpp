// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE and WordPiece.
#include "vocabularies/written_tokens.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/one_line.h"
#include "vocabularies/gguf_pre_tokenizers.h"
#include "vocabularies/stage_options.h"

namespace megalith::vocabularies {
namespace {

using gguf::Value;
using Part = text::TemplatePiece::Part;

void add_normal_form(const text::TokenizerData& data, WrittenModel& model) {
  for (const Json& part : components(Json::parse(data.normalizer_json), "normalizers")) {
    const std::string type = option(part, "type", "");
    if (type != "NFC") refuse_writing(fmt::format("byte-level BPE has no normalizer {}", type));
    model.losses.emplace_back("text that is not in the normal form C stays as it is");
  }
}

}  // namespace

void refuse_writing(const std::string& cause) {
  throw UserError("the GGUF format cannot express this tokenizer: {}; --weights-only leaves it out",
                  cause);
}

bool joins_as_roberta(const text::PostProcessor& post) {
  const auto& pair = post.pair;
  if (post.single.size() != 3 || pair.size() != 6) return false;
  for (size_t i = 0; i < pair.size(); ++i) {
    const bool is_text = i == 1 || i == 4;
    if ((pair[i].part == Part::token) == is_text || pair[i].type_id != 0) return false;
    if (i > 1 && !is_text && pair[i].id != post.single[2].id) return false;
  }
  return pair[0].id == post.single[0].id;
}

WrittenModel write_byte_level(const text::TokenizerData& data) {
  WrittenModel model;
  add_normal_form(data, model);
  const auto name = gguf_pre_tokenizer_name({.pre_tokenizer = Json::parse(data.pre_tokenizer_json),
                                             .ignore_merges = data.ignore_merges,
                                             .as_roberta = joins_as_roberta(data.post_processor)});
  if (!name)
    refuse_writing(fmt::format("the way it cuts words has no name there (pre_tokenizer {}{})",
                               one_line(data.pre_tokenizer_json, 160),
                               data.ignore_merges ? ", ignore_merges" : ""));
  if (!data.merge_ranks.empty())
    model.losses.emplace_back("of merges that make the same token the first listed comes first");
  std::vector<std::string> merges;
  merges.reserve(data.merges.size());
  for (const auto& [left, right] : data.merges)
    merges.push_back(
        fmt::format("{} {}", data.vocabulary.token(left), data.vocabulary.token(right)));
  model.keys = {{"model", Value::text("gpt2")},
                {"pre", Value::text(*name)},
                {"merges", Value::texts(merges)}};
  return model;
}

// The beginnings of words are marked there, not what goes on.
WrittenModel write_wordpiece(const text::TokenizerData& data, WrittenTokens& tokens) {
  const tokenize::WordPieceOptions& options = data.wordpiece.options();
  const std::string& going_on = options.continuing_prefix;
  const auto unknown = data.vocabulary.find(options.unknown);
  if (!unknown) refuse_writing("it has no unknown token");
  tokens.kinds[static_cast<size_t>(*unknown)] = PieceKind::control;
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    std::string& text = tokens.texts[id];
    if (tokens.kinds[id] == PieceKind::control) continue;
    const bool goes_on = !going_on.empty() && text.starts_with(going_on);
    text = goes_on ? text.substr(going_on.size()) : std::string(tokenize::kSpaceMark) + text;
  }
  const Json normalizer = Json::parse(data.normalizer_json);
  if (option(normalizer, "type", "") != "BertNormalizer" ||
      !option(normalizer, "clean_text", true) || !option(normalizer, "handle_chinese_chars", true))
    refuse_writing("WordPiece has the normalizer of BERT there");
  if (option(Json::parse(data.pre_tokenizer_json), "type", "") != "BertPreTokenizer")
    refuse_writing("WordPiece cuts words as BERT does there");
  const bool lowercase = option(normalizer, "lowercase", true);
  WrittenModel model;
  model.keys = {
      {"model", Value::text("bert")},
      {"pre", Value::text("default")},
      {"unknown_token_id", Value::u32(static_cast<uint32_t>(*unknown))},
      {"normalizer.lowercase", Value::boolean(lowercase)},
      {"normalizer.strip_accents", Value::boolean(option(normalizer, "strip_accents", lowercase))}};
  return model;
}

}  // namespace megalith::vocabularies

// SPDX-License-Identifier: Apache-2.0
// Pieces with scores: BPE with byte fallback and Unigram.
#include <fmt/format.h>

#include <algorithm>

#include "text/base64.h"
#include "tokenize/byte_fallback.h"
#include "vocabularies/stage_options.h"
#include "vocabularies/written_tokens.h"

namespace megalith::vocabularies {
namespace {

using gguf::Value;

/// What becomes of a text before it is cut into pieces.
struct PieceRules {
  std::string charsmap;         // compiled; empty: none
  bool strips = false;          // spaces at the ends go
  bool joins = false;           // of several spaces one stays
  bool prefix = false;          // a mark before the text
  bool marks = false;           // spaces become marks
  bool prefixes_first = false;  // and only before the whole text
  bool keeps_space = false;     // and not where it begins with a space
};

void read_library_options(const Json& normalizer, PieceRules& rules) {
  const Json& options = normalizer.at("sentencepiece");
  rules.strips = rules.joins = option(options, "remove_extra_whitespaces", true);
  rules.prefix = option(options, "add_dummy_prefix", true);
  rules.marks = option(options, "escape_whitespaces", true);
  if (option(options, "treat_whitespace_as_suffix", false))
    refuse_writing("its marks stand behind words");
}

// False if these rules have no place for the component.
bool add_replace(const Json& part, PieceRules& rules) {
  const Json pattern = option(part, "pattern", Json::object());
  const std::string by = option(part, "content", "");
  const bool is_mark = by == tokenize::kSpaceMark;
  if (option(pattern, "String", "") == " " && is_mark) return rules.marks = true;
  if (option(pattern, "Regex", "") != " {2,}" || (!is_mark && by != " ")) return false;
  return rules.joins = true;
}

bool add_normalizer(const Json& part, PieceRules& rules) {
  const std::string type = option(part, "type", "");
  if (type == "Precompiled") {
    rules.charsmap = text::decode_base64(option(part, "precompiled_charsmap", ""), type);
    return true;
  }
  if (type == "Replace") return add_replace(part, rules);
  if (type == "Prepend" && option(part, "prepend", "") == tokenize::kSpaceMark)
    return rules.prefix = true;
  // A space that begins a text then takes the place of the mark.
  if (type == "Strip" && option(part, "strip_right", true)) return rules.strips = true;
  return false;
}

bool add_cut(const Json& part, PieceRules& rules) {
  const std::string type = option(part, "type", "");
  if (type == "WhitespaceSplit") return rules.strips = rules.joins = true;
  if (type == "Split") {  // at spaces, which became marks
    const Json pattern = option(part, "pattern", Json::object());
    return rules.marks && option(pattern, "String", "") == " ";
  }
  if (type != "Metaspace" || option(part, "replacement", "") != tokenize::kSpaceMark) return false;
  const std::string scheme = option(part, "prepend_scheme", "always");
  if (scheme != "never" && option(part, "add_prefix_space", true)) {
    rules.prefix = rules.keeps_space = true;
    rules.prefixes_first = scheme == "first";
  }
  return rules.marks = true;
}

PieceRules rules_of(const text::TokenizerData& data) {
  const Json normalizer = Json::parse(data.normalizer_json);
  PieceRules rules;
  const bool is_library = !normalizer.is_null() && normalizer.contains("sentencepiece");
  for (const Json& part : components(normalizer, "normalizers"))
    if (!add_normalizer(part, rules) && !is_library)
      refuse_writing(fmt::format("pieces have no normalizer {} there", option(part, "type", "")));
  if (is_library) read_library_options(normalizer, rules);
  for (const Json& part : components(Json::parse(data.pre_tokenizer_json), "pretokenizers"))
    if (!add_cut(part, rules))
      refuse_writing(fmt::format("pieces are not cut by {} there", option(part, "type", "")));
  if (!rules.marks) refuse_writing("spaces do not become marks");
  if (rules.strips != rules.joins) refuse_writing("it takes away some spaces and leaves others");
  return rules;
}

// The score of a token is the place of its merges, and all of them stand in one place.
std::vector<float> scores_of_merges(const text::TokenizerData& data, size_t count) {
  std::vector<float> scores(count, 0);
  std::vector<bool> is_made(count, false);
  int64_t place = 0;
  int32_t last = -1;
  for (size_t i = 0; i < data.merges.size(); ++i) {
    const auto& [left, right] = data.merges[i];
    const int32_t id = *data.vocabulary.find(
        fmt::format("{}{}", data.vocabulary.token(left), data.vocabulary.token(right)));
    const bool is_equal =
        !data.merge_ranks.empty() && i > 0 && data.merge_ranks[i] == data.merge_ranks[i - 1];
    if (id != last && !is_equal) ++place;
    if (id != last && is_made[static_cast<size_t>(id)])
      refuse_writing(fmt::format("the merges that make \"{}\" have several places",
                                 data.vocabulary.token(id)));
    is_made[static_cast<size_t>(id)] = true;
    scores[static_cast<size_t>(id)] = static_cast<float>(-place);
    last = id;
  }
  for (size_t id = 0; id < count; ++id)
    if (!is_made[id]) scores[id] = static_cast<float>(-place - 1);
  return scores;
}

std::vector<float> scores_of(const text::TokenizerData& data, const WrittenTokens& tokens) {
  constexpr float kUnused = -10000, kAdded = -1000;  // as llama.cpp's converter has them
  const size_t count = tokens.texts.size();
  std::vector<float> scores(count, 0);
  if (data.kind == text::ModelKind::character_bpe) {
    scores = scores_of_merges(data, count);
  } else {
    for (size_t id = 0; id < data.scores.size(); ++id)
      scores[id] = static_cast<float>(data.scores[id]);
  }
  for (size_t id = 0; id < count; ++id) {
    const PieceKind kind = tokens.kinds[id];
    if (!data.vocabulary.has(static_cast<int64_t>(id))) scores[id] = kUnused;
    if (kind == PieceKind::user_defined) scores[id] = kAdded;
    if (kind == PieceKind::control || kind == PieceKind::unknown || kind == PieceKind::byte)
      scores[id] = 0;
  }
  return scores;
}

void mark_kinds(const text::TokenizerData& data, WrittenTokens& tokens) {
  const auto set = [&](int32_t id, PieceKind kind) {
    tokens.kinds[static_cast<size_t>(id)] = kind;
  };
  for (int byte = 0; data.byte_fallback && byte < 256; ++byte)
    if (const auto id = data.vocabulary.find(tokenize::byte_token(static_cast<uint8_t>(byte))))
      set(*id, PieceKind::byte);
  for (const int32_t id : data.unused_ids) set(id, PieceKind::unused);
  if (const auto id = data.vocabulary.find(data.unk_token.value_or("")))
    set(*id, PieceKind::unknown);
  // They are looked for in a text whose spaces are no marks yet.
  for (size_t id = 0; id < tokens.texts.size(); ++id)
    if (tokens.kinds[id] == PieceKind::user_defined)
      tokens.texts[id] = tokenize::unmark_spaces(tokens.texts[id]);
}

void add_losses(const text::TokenizerData& data, const PieceRules& rules, WrittenModel& model) {
  if (data.kind == text::ModelKind::unigram)
    model.losses.emplace_back("rare characters are normalised as by the SentencePiece library");
  if (rules.prefixes_first)
    model.losses.emplace_back("what follows a special token begins with a space");
  if (rules.keeps_space && !rules.joins)
    model.losses.emplace_back("a text that begins with a space begins with one more");
  const auto is_later = [](const text::AddedToken& token) {
    return token.normalized && token.in_text;
  };
  if (std::ranges::any_of(data.added_tokens, is_later))
    model.losses.emplace_back("added tokens are looked for before a text is normalised");
}

}  // namespace

WrittenModel write_pieces(const text::TokenizerData& data, WrittenTokens& tokens) {
  const bool is_bpe = data.kind == text::ModelKind::character_bpe;
  if (is_bpe && !data.byte_fallback) refuse_writing("BPE of characters needs byte fallback there");
  if (!data.unk_token) refuse_writing("it has no unknown token");
  if (data.ignore_merges) refuse_writing("it has ignore_merges");
  const PieceRules rules = rules_of(data);
  if (is_bpe && (rules.strips || !rules.charsmap.empty()))
    refuse_writing("BPE of pieces does not change a text first there");
  WrittenModel model;
  add_losses(data, rules, model);
  mark_kinds(data, tokens);
  const auto unknown = *data.vocabulary.find(*data.unk_token);
  model.keys = {{"model", Value::text(is_bpe ? "llama" : "t5")},
                {"pre", Value::text("default")},
                {"scores", Value::f32s(scores_of(data, tokens))},
                {"unknown_token_id", Value::u32(static_cast<uint32_t>(unknown))},
                {"add_space_prefix", Value::boolean(rules.prefix)}};
  if (is_bpe) return model;
  model.keys.emplace_back("remove_extra_whitespaces", Value::boolean(rules.strips));
  if (!rules.charsmap.empty())
    model.keys.emplace_back(
        "precompiled_charsmap",
        Value::stored(gguf::ValueType::u8, true, static_cast<int64_t>(rules.charsmap.size()),
                      rules.charsmap));
  return model;
}

}  // namespace megalith::vocabularies

// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/integer.h"
#include "base/one_line.h"
#include "characters/utf8.h"
#include "text/tokenizer_parts.h"
#include "tokenize/normalizer.h"
#include "vocabularies/gguf_keys.h"
#include "vocabularies/gguf_pre_tokenizers.h"
#include "vocabularies/piece_model.h"
#include "vocabularies/post_processor.h"

namespace megalith::vocabularies {
namespace {

struct Tokens {
  std::vector<std::string> texts;  // by id
  std::vector<PieceKind> kinds;

  std::string text(int32_t id) const { return texts[static_cast<size_t>(id)]; }
};

Tokens read_tokens(const GgufKeys& keys) {
  Tokens tokens{keys.texts("tokens"), {}};
  for (const std::string& text : tokens.texts)
    if (text.empty() || characters::find_invalid_utf8(text) != std::string::npos)
      throw UserError("{}: tokenizer.ggml.tokens holds \"{}\", which is no text", keys.where(),
                      one_line(text, 40));
  for (const int64_t kind : keys.kinds(tokens.texts.size())) {
    if (kind < 1 || kind > 6)
      throw UserError("{}: tokenizer.ggml.token_type holds the unknown type {}", keys.where(),
                      kind);
    tokens.kinds.push_back(static_cast<PieceKind>(kind));
  }
  return tokens;
}

struct Ends {
  std::vector<int32_t> before, after;
};

// What stands around a text: the file says so, or the kind of the tokenizer.
Ends read_ends(const GgufKeys& keys, size_t count, bool add_bos, bool add_eos) {
  Ends ends;
  const auto bos = keys.id("bos_token_id", count), eos = keys.id("eos_token_id", count);
  if (bos && keys.boolean("add_bos_token", add_bos)) ends.before.push_back(*bos);
  if (eos && keys.boolean("add_eos_token", add_eos)) ends.after.push_back(*eos);
  return ends;
}

// Special tokens and those that users defined are looked for in a text before anything else.
std::vector<text::AddedToken> added_tokens(const Tokens& tokens,
                                           const std::set<int32_t>& special_ids) {
  std::vector<text::AddedToken> added;
  for (size_t i = 0; i < tokens.texts.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const PieceKind kind = tokens.kinds[i];
    const bool special =
        kind == PieceKind::control || kind == PieceKind::unknown || special_ids.contains(id);
    if (special || kind == PieceKind::user_defined)
      added.push_back({.id = id, .content = tokens.texts[i], .special = special});
  }
  return added;
}

std::vector<std::pair<int32_t, int32_t>> read_merges(const GgufKeys& keys, const Tokens& tokens) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < tokens.texts.size(); ++id)
    ids.emplace(tokens.texts[id], static_cast<int32_t>(id));
  std::vector<std::pair<int32_t, int32_t>> merges;
  for (const std::string& merge : keys.texts("merges")) {
    const size_t space = std::min(merge.find(' ', 1), merge.size());
    const auto left = ids.find(std::string_view(merge).substr(0, space));
    const auto right = ids.find(std::string_view(merge).substr(std::min(space + 1, merge.size())));
    if (left == ids.end() || right == ids.end())
      throw UserError("{}: tokenizer.ggml.merges[{}] is not two tokens: \"{}\"", keys.where(),
                      merges.size(), one_line(merge, 80));
    merges.emplace_back(left->second, right->second);
  }
  return merges;
}

text::Tokenizer byte_level(const GgufKeys& keys) {
  const std::string name = keys.text("pre", "");
  const auto pre = gguf_pre_tokenizer(name);
  if (!pre)
    throw UserError("{}: tokenizer.ggml.pre \"{}\" is not supported; {} are", keys.where(),
                    one_line(name, 40), gguf_pre_tokenizer_names());
  const Tokens tokens = read_tokens(keys);
  const size_t count = tokens.texts.size();
  const Ends ends = read_ends(keys, count, pre->add_bos, false);
  const auto spelled = [&](int32_t id) { return tokens.text(id); };
  const auto cls = keys.id("bos_token_id", count), sep = keys.id("eos_token_id", count);
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}};
  text::TokenizerParts parts;
  parts.stages = Json{{"pre_tokenizer", pre->pre_tokenizer},
                      {"post_processor", pre->as_roberta && cls && sep
                                             ? pair_template_of(*cls, *sep, true, spelled)
                                             : template_of(ends.before, ends.after, spelled)},
                      {"decoder", bytes},
                      {"model", {{"type", "BPE"}, {"ignore_merges", pre->ignore_merges}}}}
                     .dump();
  for (size_t id = 0; id < count; ++id)
    parts.tokens.push_back({static_cast<int32_t>(id), tokens.texts[id]});
  parts.merges = read_merges(keys, tokens);
  parts.added_tokens = added_tokens(tokens, {});
  return text::assemble_tokenizer(std::move(parts), keys.where());
}

// In the file the beginnings of words are marked, not what goes on.
std::string wordpiece_spelling(const std::string& text) {
  if (text.starts_with('[') && text.ends_with(']')) return text;
  if (text.starts_with(tokenize::kSpaceMark)) return text.substr(tokenize::kSpaceMark.size());
  return "##" + text;
}

text::Tokenizer wordpiece(const GgufKeys& keys) {
  Tokens tokens = read_tokens(keys);
  const size_t count = tokens.texts.size();
  std::set<int32_t> special_ids;
  for (const char* key : {"unknown_token_id", "seperator_token_id", "padding_token_id",
                          "cls_token_id", "mask_token_id", "bos_token_id", "eos_token_id"})
    if (const auto id = keys.id(key, count)) special_ids.insert(*id);
  for (size_t id = 0; id < count; ++id)
    if (!special_ids.contains(static_cast<int32_t>(id)) && tokens.kinds[id] != PieceKind::control)
      tokens.texts[id] = wordpiece_spelling(tokens.texts[id]);
  const auto unknown = keys.id("unknown_token_id", count);
  if (!unknown) throw UserError("{}: tokenizer.ggml.unknown_token_id is missing", keys.where());
  auto cls = keys.id("cls_token_id", count), sep = keys.id("seperator_token_id", count);
  if (!cls) cls = keys.id("bos_token_id", count);
  if (!sep) sep = keys.id("eos_token_id", count);
  const auto spelled = [&](int32_t id) { return tokens.text(id); };
  text::TokenizerParts parts;
  parts.stages = Json{
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"strip_accents", keys.boolean("normalizer.strip_accents", true)},
        {"lowercase", keys.boolean("normalizer.lowercase", true)}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor", cls && sep ? pair_template_of(*cls, *sep, false, spelled) : Json()},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", tokens.text(*unknown)},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word",
         100}}}}.dump();
  for (size_t id = 0; id < count; ++id)
    parts.tokens.push_back({static_cast<int32_t>(id), tokens.texts[id]});
  parts.added_tokens = added_tokens(tokens, special_ids);
  return text::assemble_tokenizer(std::move(parts), keys.where());
}

text::Tokenizer pieces(const GgufKeys& keys, PieceModel::Algorithm algorithm) {
  const bool is_unigram = algorithm == PieceModel::Algorithm::unigram;
  Tokens tokens = read_tokens(keys);
  const size_t count = tokens.texts.size();
  const std::vector<double> scores = keys.numbers("scores");
  if (scores.size() != count)
    throw UserError("{}: tokenizer.ggml.scores has {} numbers for {} tokens", keys.where(),
                    scores.size(), count);
  PieceModel model;
  model.algorithm = algorithm;
  model.raw_tokens = PieceModel::RawTokens::special;
  model.unknown_id = keys.id("unknown_token_id", count).value_or(is_unigram ? 2 : 0);
  model.add_dummy_prefix = keys.boolean("add_space_prefix", true);
  model.remove_extra_whitespaces = keys.boolean("remove_extra_whitespaces", is_unigram);
  model.byte_fallback =
      std::count(tokens.kinds.begin(), tokens.kinds.end(), PieceKind::byte) == 256;
  for (size_t id = 0; id < count; ++id)
    model.pieces.push_back(
        {std::move(tokens.texts[id]), static_cast<float>(scores[id]), tokens.kinds[id]});
  if (const gguf::Value* const rules = keys.find("precompiled_charsmap")) {
    if (!rules->is_array() ||
        (rules->type() != gguf::ValueType::u8 && rules->type() != gguf::ValueType::i8))
      throw UserError("{}: tokenizer.ggml.precompiled_charsmap must be an array of bytes, not {}",
                      keys.where(), rules->kind());
    model.charsmap = rules->bytes();
  }
  Ends ends = read_ends(keys, count, !is_unigram, is_unigram);
  model.before = std::move(ends.before);
  model.after = std::move(ends.after);
  return make_tokenizer(model, keys.where());
}

}  // namespace

text::Tokenizer read_gguf_vocabulary(const gguf::Metadata& metadata, std::string_view where) {
  const GgufKeys keys(metadata, where);
  if (keys.find("model") == nullptr)
    throw UserError("{}: the GGUF file holds no tokenizer (no tokenizer.ggml.model)", where);
  const std::string model = keys.text("model");
  if (model == "llama") return pieces(keys, PieceModel::Algorithm::bpe);
  if (model == "t5") return pieces(keys, PieceModel::Algorithm::unigram);
  if (model == "gpt2") return byte_level(keys);
  if (model == "bert") return wordpiece(keys);
  throw UserError("{}: tokenizer.ggml.model \"{}\" is not supported; llama, t5, gpt2 and bert are",
                  where, one_line(model, 40));
}

}  // namespace megalith::vocabularies

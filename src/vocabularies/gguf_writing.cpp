// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/gguf_writing.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/one_line.h"
#include "vocabularies/gguf_vocabulary.h"
#include "vocabularies/token_roles.h"
#include "vocabularies/written_tokens.h"

namespace megalith::vocabularies {
namespace {

using gguf::Value;
using text::TokenizerData;
using Part = text::TemplatePiece::Part;

std::string key(std::string_view name) { return fmt::format("tokenizer.ggml.{}", name); }

Value id_value(int32_t id) { return Value::u32(static_cast<uint32_t>(id)); }

WrittenTokens tokens_of(const TokenizerData& data, int64_t vocab) {
  if (data.vocabulary.size() > vocab)
    refuse_writing(fmt::format("it has {} ids, and the model {}", data.vocabulary.size(), vocab));
  WrittenTokens tokens;
  for (int64_t id = 0; id < vocab; ++id) {
    const bool is_used = data.vocabulary.has(id);
    tokens.texts.push_back(is_used ? std::string(data.vocabulary.token(static_cast<int32_t>(id)))
                                   : fmt::format("[PAD{}]", id));
    tokens.kinds.push_back(is_used ? PieceKind::normal : PieceKind::unused);
  }
  for (const text::AddedToken& token : data.added_tokens)
    tokens.kinds[static_cast<size_t>(token.id)] =
        token.special ? PieceKind::control : PieceKind::user_defined;
  return tokens;
}

WrittenModel write_model(const TokenizerData& data, WrittenTokens& tokens) {
  switch (data.kind) {
    case text::ModelKind::byte_bpe:
      return write_byte_level(data);
    case text::ModelKind::wordpiece:
      return write_wordpiece(data, tokens);
    case text::ModelKind::character_bpe:
    case text::ModelKind::unigram:
    case text::ModelKind::sentencepiece_unigram:
      return write_pieces(data, tokens);
    case text::ModelKind::word_level:
      break;
  }
  refuse_writing("words as a whole have no kind there");
}

/// What stands around a text: one token or none at either side.
struct Around {
  std::optional<int32_t> front, back;
};

Around around(const text::PostProcessor& post) {
  Around found;
  bool is_behind = false;
  for (const text::TemplatePiece& piece : post.single) {
    if (piece.part != Part::token) {
      is_behind = true;
      continue;
    }
    auto& side = is_behind ? found.back : found.front;
    if (side) refuse_writing("several tokens stand before or behind a text");
    side = piece.id;
  }
  return found;
}

/// The ends that the tokenizer has, or else names, before those of the model.
TextEnds ends_of(const Around& sides, const TokenRoles& roles, const TextEnds& model) {
  const auto named = [&](const char* role) -> std::optional<int32_t> {
    const auto found = roles.find(role);
    return found == roles.end() ? std::nullopt : std::optional(found->second);
  };
  TextEnds ends = model;
  if (const auto named_begin = named("bos_token_id")) ends.begin = named_begin;
  if (sides.front) ends.begin = sides.front;
  const auto end = sides.back ? sides.back : named("eos_token_id");
  if (!end) return ends;
  std::erase(ends.end, *end);
  ends.end.insert(ends.end.begin(), *end);
  return ends;
}

void add_losses_of_added(const TokenizerData& data, std::vector<std::string>& losses) {
  const auto add = [&](auto has, std::string_view loss) {
    const auto found = std::ranges::find_if(data.added_tokens, has);
    if (found != data.added_tokens.end())
      losses.push_back(fmt::format("{} {}", one_line(found->content, 40), loss));
  };
  using Token = text::AddedToken;
  add([](const Token& token) { return token.lstrip || token.rstrip; },
      "leaves the white space beside it");
  add([](const Token& token) { return token.single_word; }, "is found within words");
}

void append_roles(const Around& sides, bool is_pair, const TokenRoles& roles,
                  gguf::OrderedMetadata& keys) {
  const auto add = [&](std::string_view role, int32_t id) {
    const bool is_there =
        std::ranges::any_of(keys, [&](const auto& item) { return item.first == key(role); });
    if (!is_there) keys.emplace_back(key(role), id_value(id));
  };
  if (is_pair) {
    add("cls_token_id", *sides.front);
    add("seperator_token_id", *sides.back);
  }
  for (const auto& [role, id] : roles)
    if (role != "bos_token_id" && role != "eos_token_id") add(role, id);
  keys.emplace_back(key("add_bos_token"), Value::boolean(sides.front.has_value()));
  keys.emplace_back(key("add_eos_token"), Value::boolean(sides.back.has_value()));
  if (is_pair) keys.emplace_back(key("add_sep_token"), Value::boolean(true));
}

/// The file as its reader gets it.
text::Tokenizer read_again(const GgufVocabulary& written) {
  gguf::Metadata metadata(written.keys.begin(), written.keys.end());
  const TextEnds& ends = written.ends;
  if (ends.begin) metadata.emplace(key("bos_token_id"), id_value(*ends.begin));
  if (!ends.end.empty()) metadata.emplace(key("eos_token_id"), id_value(ends.end.front()));
  return read_gguf_vocabulary(metadata, "the GGUF format cannot express this tokenizer");
}

}  // namespace

GgufVocabulary write_gguf_vocabulary(const text::Tokenizer& tokenizer,
                                     const std::map<std::string, std::string>& texts, int64_t vocab,
                                     const TextEnds& model) {
  const TokenizerData& data = tokenizer.data();
  WrittenTokens tokens = tokens_of(data, vocab);
  const Around sides = around(data.post_processor);
  const bool is_wordpiece = data.kind == text::ModelKind::wordpiece;
  if (is_wordpiece && (!sides.front || !sides.back))
    refuse_writing("WordPiece has a token before a text and one behind it there");
  const TokenRoles roles = token_roles(texts, data);
  WrittenModel kind = write_model(data, tokens);
  GgufVocabulary written{{}, ends_of(sides, roles, model), std::move(kind.losses)};
  add_losses_of_added(data, written.losses);
  for (auto& [name, value] : kind.keys) written.keys.emplace_back(key(name), std::move(value));
  std::vector<int32_t> kinds;
  for (const PieceKind each : tokens.kinds) kinds.push_back(static_cast<int32_t>(each));
  written.keys.emplace_back(key("tokens"), Value::texts(tokens.texts));
  written.keys.emplace_back(key("token_type"), Value::i32s(kinds));
  const bool is_pair = is_wordpiece || (data.kind == text::ModelKind::byte_bpe &&
                                        joins_as_roberta(data.post_processor));
  append_roles(sides, is_pair, roles, written.keys);
  require_same(data, read_again(written).data(), written.losses);
  return written;
}

}  // namespace megalith::vocabularies

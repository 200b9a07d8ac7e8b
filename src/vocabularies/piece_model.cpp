// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/piece_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "base/one_line.h"
#include "characters/utf8.h"
#include "text/base64.h"
#include "text/tokenizer_parts.h"
#include "tokenize/byte_fallback.h"
#include "tokenize/normalizer.h"
#include "vocabularies/merges.h"
#include "vocabularies/post_processor.h"

namespace megalith::vocabularies {
namespace {

using Algorithm = PieceModel::Algorithm;
using Piece = PieceModel::Piece;

bool is_one_character(std::string_view text) {
  return characters::read_utf8(text.data()).length == text.size();
}

std::string shown(std::string_view text) { return one_line(text, 40); }

void require_bytes(const PieceModel& model, std::string_view where) {
  std::vector<bool> found(256, false);
  for (const Piece& piece : model.pieces) {
    if (piece.kind != PieceKind::byte) continue;
    const auto byte = tokenize::byte_of_token(piece.text);
    if (!byte || tokenize::byte_token(*byte) != piece.text)
      throw UserError("{}: the piece \"{}\" spells no byte", where, shown(piece.text));
    found[*byte] = true;
  }
  if (std::find(found.begin(), found.end(), false) != found.end())
    throw UserError("{}: byte_fallback needs pieces of all 256 bytes", where);
}

void require_sound(const PieceModel& model, std::string_view where) {
  if (model.pieces.empty()) throw UserError("{}: it has no pieces", where);
  if (model.unknown_id < 0 || static_cast<size_t>(model.unknown_id) >= model.pieces.size())
    throw UserError("{}: the unknown piece has the id {} of {}", where, model.unknown_id,
                    model.pieces.size());
  characters::require_utf8(model.unknown_surface, fmt::format("{}: unk_surface", where));
  for (const Piece& piece : model.pieces) {
    if (piece.text.empty()) throw UserError("{}: a piece is empty", where);
    if (characters::find_invalid_utf8(piece.text) != std::string::npos)
      throw UserError("{}: the piece \"{}\" is not UTF-8", where, shown(piece.text));
    if (!std::isfinite(piece.score))
      throw UserError("{}: the score of the piece \"{}\" is not finite", where, shown(piece.text));
  }
  if (model.byte_fallback) require_bytes(model, where);
}

// Of a file of the library: a character that is no piece by itself would merge there all the same,
// and an unused piece would come apart again. No trained model has either.
void require_plain_merges(const PieceModel& model, std::span<const MergeToken> parts,
                          std::string_view where) {
  std::unordered_set<std::string_view> characters;
  for (const MergeToken& part : parts)
    if (is_one_character(part.text)) characters.insert(part.text);
  std::vector<MergeToken> unused;
  for (const Piece& piece : model.pieces) {
    if (piece.kind == PieceKind::unused && !is_one_character(piece.text))
      unused.push_back({piece.text, 0});
    for (size_t at = 0; piece.kind == PieceKind::normal && at < piece.text.size();) {
      const size_t length = characters::read_utf8(piece.text.data() + at).length;
      if (!characters.contains(std::string_view(piece.text).substr(at, length)))
        throw UserError("{}: BPE with a character of \"{}\" that is no piece is not supported",
                        where, shown(piece.text));
      at += length;
    }
  }
  if (!find_merges(parts, unused, where).pairs.empty())
    throw UserError("{}: BPE with unused pieces that merges make is not supported", where);
}

Merges merges_of(const PieceModel& model, std::string_view where) {
  if (model.algorithm != Algorithm::bpe) return {};
  const bool is_gguf = model.raw_tokens == PieceModel::RawTokens::special;
  std::vector<MergeToken> parts, made;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const MergeToken token{piece.text, static_cast<int32_t>(id), static_cast<double>(piece.score)};
    const bool merges =
        piece.kind == PieceKind::normal || (is_gguf && piece.kind == PieceKind::unused);
    const bool is_character = is_one_character(piece.text);
    if (merges || is_character) parts.push_back(token);
    if (merges && !is_character) made.push_back(token);
  }
  if (!is_gguf) require_plain_merges(model, parts, where);
  return find_merges(parts, std::move(made), where);
}

Json normalizer_of(const PieceModel& model) {
  Json steps = Json::array();
  const auto replace = [](const char* kind, const char* what, std::string_view by) {
    return Json{{"type", "Replace"}, {"pattern", {{kind, what}}}, {"content", by}};
  };
  if (!model.charsmap.empty())
    steps.push_back(
        {{"type", "Precompiled"}, {"precompiled_charsmap", text::encode_base64(model.charsmap)}});
  if (model.remove_extra_whitespaces) {
    steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    steps.push_back(replace("Regex", " {2,}", " "));
  }
  if (model.add_dummy_prefix && !model.treat_whitespace_as_suffix)
    steps.push_back({{"type", "Prepend"}, {"prepend", tokenize::kSpaceMark}});
  if (model.escape_whitespaces) steps.push_back(replace("String", " ", tokenize::kSpaceMark));
  return {{"type", "Sequence"},
          {"normalizers", steps},
          {"sentencepiece",
           {{"add_dummy_prefix", model.add_dummy_prefix},
            {"remove_extra_whitespaces", model.remove_extra_whitespaces},
            {"escape_whitespaces", model.escape_whitespaces},
            {"treat_whitespace_as_suffix", model.treat_whitespace_as_suffix}}}};
}

Json decoder_of(const PieceModel& model) {
  Json steps = {
      {{"type", "Replace"}, {"pattern", {{"String", tokenize::kSpaceMark}}}, {"content", " "}},
      {{"type", "ByteFallback"}},
      {{"type", "Fuse"}}};
  if (model.add_dummy_prefix)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"},
          {"decoders", steps},
          {"sentencepiece",
           {{"unknown", model.pieces[static_cast<size_t>(model.unknown_id)].text},
            {"unknown_surface", model.unknown_surface},
            {"add_dummy_prefix", model.add_dummy_prefix},
            {"remove_extra_whitespaces", model.remove_extra_whitespaces},
            {"byte_fallback", model.byte_fallback}}}};
}

Json model_of(const PieceModel& model) {
  Json options = {{"type", "BPE"},
                  {"unk_token", model.pieces[static_cast<size_t>(model.unknown_id)].text},
                  {"fuse_unk", true},
                  {"byte_fallback", model.byte_fallback}};
  if (model.algorithm == Algorithm::unigram) {
    options["type"] = "Unigram";
    options["sentencepiece"] = Json::object();
  }
  return options;
}

void add_token(const PieceModel& model, int32_t id, text::TokenizerParts& parts) {
  const Piece& piece = model.pieces[static_cast<size_t>(id)];
  parts.tokens.push_back({id, piece.text, static_cast<double>(piece.score)});
  if (piece.kind == PieceKind::unused) parts.unused_ids.push_back(id);
  const bool is_special = piece.kind == PieceKind::control || piece.kind == PieceKind::unknown;
  const bool is_raw = model.raw_tokens == PieceModel::RawTokens::special;
  if (piece.kind != PieceKind::user_defined && !is_special) return;
  // The library shows the unknown piece, so it is no special token.
  if (piece.kind == PieceKind::unknown && !is_raw) return;
  parts.added_tokens.push_back({.id = id,
                                .content = piece.text,
                                .normalized = !is_raw && !is_special,
                                .special = is_special,
                                .in_text = is_raw || !is_special});
}

}  // namespace

text::Tokenizer make_tokenizer(const PieceModel& model, std::string_view where) {
  require_sound(model, where);
  text::TokenizerParts parts;
  for (size_t id = 0; id < model.pieces.size(); ++id)
    add_token(model, static_cast<int32_t>(id), parts);
  Merges merges = merges_of(model, where);
  parts.merges = std::move(merges.pairs);
  parts.merge_ranks = std::move(merges.ranks);
  const auto spelled = [&](int32_t id) { return model.pieces[static_cast<size_t>(id)].text; };
  parts.stages = Json{{"normalizer", normalizer_of(model)},
                      {"pre_tokenizer", nullptr},
                      {"post_processor", template_of(model.before, model.after, spelled)},
                      {"decoder", decoder_of(model)},
                      {"model", model_of(model)}}
                     .dump();
  return text::assemble_tokenizer(std::move(parts), where);
}

}  // namespace megalith::vocabularies

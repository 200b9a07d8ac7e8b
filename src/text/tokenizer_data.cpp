// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_data.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "characters/utf8.h"
#include "tokenize/byte_level.h"

namespace megalith::text {
namespace {

void fill_merges(TokenizerData& data, std::string_view where) {
  data.model.merges = tokenize::MergeTable(data.merges.size());
  std::string made;
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const auto [left, right] = data.merges[rank];
    made.assign(data.vocabulary.token(left));
    made.append(data.vocabulary.token(right));
    const std::optional<int32_t> id = data.vocabulary.find(made);
    if (!id)
      throw UserError("{}: merge {} makes \"{}\", which is not in the vocabulary", where, rank,
                      made);
    const uint32_t priority =
        data.merge_ranks.empty() ? static_cast<uint32_t>(rank) : data.merge_ranks[rank];
    data.model.merges.set(left, right, {priority, *id});
  }
}

// Whether words may be cut before each mark that follows something else: no merge makes a token
// that goes on there, and the mark is known, so that no run of unknown characters does.
bool can_cut_at_marks(const TokenizerData& data) {
  const std::string_view mark = tokenize::kSpaceMark;
  if (!data.vocabulary.find(mark)) return false;
  return std::none_of(data.merges.begin(), data.merges.end(), [&](const auto& merge) {
    return data.vocabulary.token(merge.second).starts_with(mark) &&
           !data.vocabulary.token(merge.first).ends_with(mark);
  });
}

int32_t find_unknown(const TokenizerData& data, std::string_view where) {
  if (!data.unk_token) return -1;
  const std::optional<int32_t> id = data.vocabulary.find(*data.unk_token);
  if (!id) throw UserError("{}: unk_token \"{}\" is not in the vocabulary", where, *data.unk_token);
  return *id;
}

void fill_characters(TokenizerData& data, std::string_view where) {
  tokenize::CharacterSymbols& characters = data.characters;
  characters.unknown_id = find_unknown(data, where);
  characters.fuse_unknown = data.fuse_unk;
  for (const int32_t id : data.model_ids) {
    const std::string_view token = data.vocabulary.token(id);
    if (token.empty()) continue;
    const characters::CodePoint point = characters::read_utf8(token.data());
    if (point.length == token.size()) characters.set(point.code, id);
  }
  if (!data.byte_fallback) return;
  int missing = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto id = data.vocabulary.find(tokenize::byte_token(static_cast<uint8_t>(byte)));
    if (!id) ++missing;
    characters.byte_ids[byte] = id.value_or(-1);
  }
  if (missing > 0 && !data.unk_token)
    log::warning("{}: {} of the 256 byte tokens are missing; characters that need them are lost",
                 where, missing);
}

void fill_bytes(TokenizerData& data, std::string_view where) {
  const int32_t unknown = find_unknown(data, where);
  int missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const char as_char = static_cast<char>(byte);
    const std::string spelling = tokenize::bytes_to_token(std::string_view(&as_char, 1));
    const std::optional<int32_t> id = data.vocabulary.find(spelling);
    if (!id) ++missing;
    data.model.byte_ids[static_cast<size_t>(byte)] = id.value_or(unknown);
  }
  if (data.fuse_unk) data.model.fused_id = unknown;
  if (missing > 0 && !data.unk_token)
    log::warning(
        "{}: {} of the 256 bytes have no token; text that holds them loses them (train with all "
        "bytes in the alphabet to avoid this)",
        where, missing);
}

// Tokens that no text makes, not even one that spells them.
std::vector<int32_t> ids_not_in_text(const TokenizerData& data) {
  std::vector<int32_t> ids;
  for (const AddedToken& token : data.added_tokens)
    if (!token.in_text) ids.push_back(token.id);
  return ids;
}

// A text is cut into neither special tokens nor those of bytes, nor what is not used.
void fill_sentencepiece_unigram(TokenizerData& data, std::string_view where) {
  tokenize::SentencePieceUnigram::Options options;
  options.unknown_id = find_unknown(data, where);
  if (options.unknown_id < 0) throw UserError("{}: there is no unknown token", where);
  enum class Part : uint8_t { piece, user_defined, none };
  std::vector<Part> parts(static_cast<size_t>(data.vocabulary.size()), Part::piece);
  parts[static_cast<size_t>(options.unknown_id)] = Part::none;
  for (const int32_t id : data.unused_ids) parts[static_cast<size_t>(id)] = Part::none;
  for (const AddedToken& token : data.added_tokens)
    if (data.vocabulary.find(token.content) == token.id)
      parts[static_cast<size_t>(token.id)] = token.special ? Part::none : Part::user_defined;
  if ((options.byte_fallback = data.byte_fallback)) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const std::string spelled = tokenize::byte_token(static_cast<uint8_t>(byte));
      const std::optional<int32_t> id = data.vocabulary.find(spelled);
      if (!id) throw UserError("{}: the byte token {} is missing", where, spelled);
      options.byte_ids[byte] = *id;
      parts[static_cast<size_t>(*id)] = Part::none;
    }
  }
  std::vector<tokenize::SentencePieceUnigram::Piece> pieces;
  for (const auto& [text, id] : model_pieces(data))
    if (const Part part = parts[static_cast<size_t>(id)]; part != Part::none)
      pieces.push_back({text, id, static_cast<float>(data.scores[static_cast<size_t>(id)]),
                        part == Part::user_defined});
  data.sentencepiece_unigram = tokenize::SentencePieceUnigram(options, pieces);
}

}  // namespace

std::vector<tokenize::PieceTrie::Piece> model_pieces(const TokenizerData& data) {
  std::vector<tokenize::PieceTrie::Piece> found;
  for (const int32_t id : data.model_ids)
    if (const std::string_view token = data.vocabulary.token(id); !token.empty())
      found.push_back({token, id});
  return found;
}

void complete_model(TokenizerData& data, std::string_view where) {
  switch (data.kind) {
    case ModelKind::byte_bpe:
      fill_merges(data, where);
      fill_bytes(data, where);
      if (data.ignore_merges) data.vocabulary.index_bytes(ids_not_in_text(data));
      return;
    case ModelKind::character_bpe:
      fill_merges(data, where);
      fill_characters(data, where);
      data.cuts_at_marks = data.pre_tokenizer.does_nothing() && can_cut_at_marks(data);
      return;
    case ModelKind::wordpiece:
      data.wordpiece = tokenize::WordPieceModel(data.wordpiece.options(), model_pieces(data));
      return;
    case ModelKind::unigram:
      data.unigram =
          tokenize::UnigramModel({.unknown_id = data.unk_token ? find_unknown(data, where) : -1,
                                  .byte_fallback = data.byte_fallback},
                                 model_pieces(data), data.scores);
      return;
    case ModelKind::sentencepiece_unigram:
      fill_sentencepiece_unigram(data, where);
      return;
    case ModelKind::word_level:
      data.whole_words = tokenize::PieceTrie(model_pieces(data));
      return;
  }
  MEGA_CHECK(false);
}

void complete_added_tokens(TokenizerData& data) {
  data.is_special.assign(static_cast<size_t>(data.vocabulary.size()), false);
  for (const AddedToken& token : data.added_tokens) {
    if (token.special) data.is_special[static_cast<size_t>(token.id)] = true;
    if (!token.in_text) continue;
    if (!token.normalized) {
      data.raw_matcher.add(token);
      continue;
    }
    // Their model finds those that users defined, by their scores.
    if (data.kind == ModelKind::sentencepiece_unigram) continue;
    AddedToken normalized = token;
    if (!data.normalizer.is_sentencepiece())
      normalized.content = data.normalizer.apply(token.content);
    data.normalized_matcher.add(normalized);
  }
}

}  // namespace megalith::text

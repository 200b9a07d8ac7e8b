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
    data.model.merges.set(left, right, {static_cast<uint32_t>(rank), *id});
  }
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
      if (data.ignore_merges) data.vocabulary.index_bytes();
      return;
    case ModelKind::character_bpe:
      fill_merges(data, where);
      fill_characters(data, where);
      return;
    case ModelKind::wordpiece:
      data.wordpiece = tokenize::WordPieceModel(data.wordpiece.options(), model_pieces(data));
      return;
    case ModelKind::unigram:
      return;  // complete when it was read
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
    if (!token.normalized) {
      data.raw_matcher.add(token);
      continue;
    }
    AddedToken normalized = token;
    normalized.content = data.normalizer.apply(token.content);
    data.normalized_matcher.add(normalized);
  }
}

}  // namespace megalith::text

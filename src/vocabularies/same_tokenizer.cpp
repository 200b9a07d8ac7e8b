// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/one_line.h"
#include "vocabularies/written_tokens.h"

namespace megalith::vocabularies {
namespace {

using text::TokenizerData;

std::string shown(const TokenizerData& data, int32_t id) {
  return one_line(data.vocabulary.token(id), 40);
}

bool is_piece_kind(const TokenizerData& data) {
  return data.kind == text::ModelKind::character_bpe || text::is_unigram(data.kind);
}

std::set<int32_t> users_tokens(const TokenizerData& data) {
  std::set<int32_t> ids;
  for (const text::AddedToken& token : data.added_tokens)
    if (!token.special) ids.insert(token.id);
  return ids;
}

void require_same_tokens(const TokenizerData& ours, const TokenizerData& theirs) {
  const std::set<int32_t> users = is_piece_kind(ours) ? users_tokens(ours) : std::set<int32_t>();
  for (int32_t id = 0; id < ours.vocabulary.size(); ++id) {
    if (!ours.vocabulary.has(id)) continue;
    std::string token(ours.vocabulary.token(id));
    if (users.contains(id)) token = tokenize::unmark_spaces(token);
    if (theirs.vocabulary.token(id) != token)
      refuse_writing(
          fmt::format("the token \"{}\" would be \"{}\"", shown(ours, id), shown(theirs, id)));
  }
  std::set<std::pair<int32_t, bool>> found;
  for (const text::AddedToken& token : theirs.added_tokens) found.emplace(token.id, token.special);
  for (const text::AddedToken& token : ours.added_tokens)
    if (!found.contains({token.id, token.special}))
      refuse_writing(fmt::format("\"{}\" would be no added token", shown(ours, token.id)));
}

// Any way to make a token of two others is a merge there, and none makes a token of users.
void require_same_pairs(const TokenizerData& ours, const TokenizerData& theirs,
                        std::vector<std::string>& losses) {
  using Pair = std::pair<int32_t, int32_t>;
  const std::set<int32_t> users = users_tokens(ours);
  std::vector<Pair> kept, again = theirs.merges;
  for (const Pair& pair : ours.merges) {
    const auto made = ours.vocabulary.find(
        fmt::format("{}{}", ours.vocabulary.token(pair.first), ours.vocabulary.token(pair.second)));
    if (!users.contains(*made)) kept.push_back(pair);
  }
  if (kept.size() < ours.merges.size())
    losses.emplace_back("added tokens are not merged of others");
  std::ranges::sort(kept);
  std::ranges::sort(again);
  std::vector<Pair> differing;
  std::ranges::set_symmetric_difference(kept, again, std::back_inserter(differing));
  if (differing.empty()) return;
  const auto [left, right] = differing.front();
  refuse_writing(
      fmt::format("pieces merge by the scores of what they make there: \"{}\" and "
                  "\"{}\" would{}",
                  shown(theirs, left), shown(theirs, right),
                  std::ranges::binary_search(kept, differing.front()) ? " not" : ""));
}

bool is_same(const std::vector<text::TemplatePiece>& one,
             const std::vector<text::TemplatePiece>& other, bool with_types) {
  return std::ranges::equal(one, other, [&](const auto& a, const auto& b) {
    return a.part == b.part && a.id == b.id && (!with_types || a.type_id == b.type_id);
  });
}

void require_same_ends(const TokenizerData& ours, const TokenizerData& theirs) {
  const text::PostProcessor &one = ours.post_processor, &other = theirs.post_processor;
  const bool joins = ours.kind == text::ModelKind::wordpiece || joins_as_roberta(one);
  if (!is_same(one.single, other.single, joins))
    refuse_writing("other tokens would stand around a text");
  if (joins && !is_same(one.pair, other.pair, true))
    refuse_writing("other tokens would stand around two texts");
}

void require_same_scores(const TokenizerData& ours, const TokenizerData& theirs) {
  std::set<int32_t> scored(ours.model_ids.begin(), ours.model_ids.end());
  for (const text::AddedToken& token : ours.added_tokens) scored.erase(token.id);
  for (const int32_t id : scored) {
    const auto at = static_cast<size_t>(id);
    const bool is_same =
        static_cast<float>(ours.scores[at]) == static_cast<float>(theirs.scores[at]);
    if (!is_same && ours.vocabulary.token(id) != ours.unk_token)
      refuse_writing(fmt::format("the score of \"{}\" would be another", shown(ours, id)));
  }
}

}  // namespace

void require_same(const TokenizerData& ours, const TokenizerData& theirs,
                  std::vector<std::string>& losses) {
  require_same_tokens(ours, theirs);
  require_same_ends(ours, theirs);
  if (ours.byte_fallback != theirs.byte_fallback)
    refuse_writing("byte fallback needs the tokens of all 256 bytes");
  switch (ours.kind) {
    case text::ModelKind::byte_bpe:
      if (ours.merges != theirs.merges) refuse_writing("its merges would be others");
      if (ours.model.byte_ids != theirs.model.byte_ids)
        refuse_writing("bytes without a token would be lost, not unknown");
      return;
    case text::ModelKind::character_bpe:
      return require_same_pairs(ours, theirs, losses);
    case text::ModelKind::wordpiece: {
      const tokenize::WordPieceOptions &one = ours.wordpiece.options(),
                                       &other = theirs.wordpiece.options();
      if (one.unknown != other.unknown || one.continuing_prefix != other.continuing_prefix ||
          one.most_characters != other.most_characters)
        refuse_writing(
            fmt::format("WordPiece has continuing_subword_prefix {} and "
                        "max_input_chars_per_word {} there",
                        other.continuing_prefix, other.most_characters));
      return;
    }
    default:
      return require_same_scores(ours, theirs);
  }
}

}  // namespace megalith::vocabularies

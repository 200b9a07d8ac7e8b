// SPDX-License-Identifier: Apache-2.0
#include "tokenize/unigram_model.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "characters/utf8.h"
#include "tokenize/byte_fallback.h"

namespace megalith::tokenize {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score

}  // namespace

UnigramModel::UnigramModel(Options options, const std::vector<PieceTrie::Piece>& vocabulary,
                           std::vector<double> scores)
    : options_(options), pieces_(vocabulary), scores_(std::move(scores)) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const double score : scores_) lowest = std::min(lowest, score);
  unknown_score_ = lowest - kUnknownPenalty;
  for (size_t byte = 0; byte < 256; ++byte)
    byte_ids_[byte] = pieces_.find(byte_token(static_cast<uint8_t>(byte)));
}

// A run of unknown characters may by chance be a token, which then stands for it.
void UnigramModel::append_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  if (const int32_t id = pieces_.find(text); id >= 0) {
    ids.push_back(id);
    return;
  }
  const auto id_of = [this](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
  if (options_.byte_fallback &&
      std::all_of(text.begin(), text.end(), [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : text) ids.push_back(id_of(c));
    return;
  }
  ids.push_back(options_.unknown_id);
}

void UnigramModel::encode_word(std::string_view word, Scratch& scratch,
                               std::vector<int32_t>& ids) const {
  if (word.size() >= 0xFFFFFFFF)
    throw UserError("{} bytes are too many for one word; cut the document", word.size());
  scratch.assign(word.size() + 1, Node{});
  for (size_t begin = 0; begin < word.size();) {
    const double till_here = scratch[begin].score;
    const size_t first_end = begin + characters::read_utf8(word.data() + begin).length;
    const auto offer = [&](size_t end, int32_t id, double score) {
      Node& node = scratch[end];
      if (node.id < 0 || till_here + score > node.score)
        node = {till_here + score, static_cast<uint32_t>(begin), id};
    };
    bool has_first = false;
    uint32_t node = 0;
    for (size_t end = begin; end < word.size() && pieces_.step(node, word[end]);) {
      ++end;
      const int32_t id = pieces_.value(node);
      if (id < 0) continue;
      offer(end, id, score(id));
      has_first = has_first || end == first_end;
    }
    if (!has_first) {
      if (options_.unknown_id < 0)
        throw UserError("\"{}\" has no token, and the vocabulary has no unknown token (unk_id)",
                        word.substr(begin, first_end - begin));
      offer(first_end, options_.unknown_id, unknown_score_);
    }
    begin = first_end;
  }
  // Back from the end, then turned round.
  const size_t before = ids.size();
  for (size_t end = word.size(); end > 0;) {
    size_t begin = scratch[end].begin;
    if (scratch[end].id == options_.unknown_id) {
      while (begin > 0 && scratch[begin].id == options_.unknown_id) begin = scratch[begin].begin;
      const size_t from = ids.size();
      append_unknown(word.substr(begin, end - begin), ids);
      std::reverse(ids.begin() + static_cast<ptrdiff_t>(from), ids.end());
    } else {
      ids.push_back(scratch[end].id);
    }
    end = begin;
  }
  std::reverse(ids.begin() + static_cast<ptrdiff_t>(before), ids.end());
}

}  // namespace megalith::tokenize

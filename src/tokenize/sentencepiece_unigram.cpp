// SPDX-License-Identifier: Apache-2.0
#include "tokenize/sentencepiece_unigram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "characters/utf8.h"
#include "tokenize/normalizer.h"
#include "tokenize/split.h"

namespace megalith::tokenize {
namespace {

constexpr float kUnknownCost = 10;  // below the lowest score
constexpr float kUserDefinedCost = 0.1F;
constexpr float kLeastSum = -100000;  // sums below begin anew

PieceTrie trie_of(const std::vector<SentencePieceUnigram::Piece>& pieces) {
  std::vector<PieceTrie::Piece> texts;
  texts.reserve(pieces.size());
  for (const auto& piece : pieces) texts.push_back({piece.text, piece.id});
  return PieceTrie(std::move(texts));
}

// Whether a mark follows something else in it.
bool crosses_a_mark(std::string_view piece) {
  const char* const end = piece.data() + piece.size();
  return scan_marked_word(piece.data(), end) != end;
}

}  // namespace

// A piece that a user defined has the highest score for each of its bytes, less a tenth. As in the
// library that score is at least a tenth, though none of a trained model is positive.
SentencePieceUnigram::SentencePieceUnigram(const Options& options, const std::vector<Piece>& pieces)
    : options_(options), pieces_(trie_of(pieces)) {
  float lowest = std::numeric_limits<float>::max();
  float highest = kUserDefinedCost;
  int32_t last_id = -1;
  for (const Piece& piece : pieces) {
    last_id = std::max(last_id, piece.id);
    if (piece.user_defined) continue;
    lowest = std::min(lowest, piece.score);
    highest = std::max(highest, piece.score);
  }
  unknown_score_ = lowest - kUnknownCost;
  cuts_at_marks_ = pieces_.find(kSpaceMark) >= 0 &&
                   std::none_of(pieces.begin(), pieces.end(),
                                [](const Piece& piece) { return crosses_a_mark(piece.text); });
  scores_.resize(static_cast<size_t>(last_id + 1));
  for (const Piece& piece : pieces) {
    const float bonus = static_cast<float>(piece.text.size()) * highest;
    scores_[static_cast<size_t>(piece.id)] =
        piece.user_defined ? bonus - kUserDefinedCost : piece.score;
    longest_ = std::max(longest_, piece.text.size());
  }
}

void SentencePieceUnigram::append_unknown(std::string_view text, std::vector<int32_t>& ids) const {
  if (!options_.byte_fallback) {
    ids.push_back(options_.unknown_id);
    return;
  }
  for (const char c : text) ids.push_back(options_.byte_ids[static_cast<uint8_t>(c)]);
}

void SentencePieceUnigram::encode(std::string_view text, Scratch& scratch, WordCache& plans,
                                  std::vector<int32_t>& ids) const {
  if (text.size() >= 0xFFFFFFFF)
    throw UserError("{} bytes are too many for one text; cut the document", text.size());
  float sum = 0;
  if (!cuts_at_marks_) return search(text, sum, scratch, ids);
  const char* const end = text.data() + text.size();
  std::array<int32_t, WordCache::kMaxIds> entry{};
  for (const char* at = text.data(); at < end;) {
    const char* const next = scan_marked_word(at, end);
    const std::string_view word(at, static_cast<size_t>(next - at));
    at = next;
    if (word.size() <= WordCache::kMaxBytes) {
      const WordCache::Key key = WordCache::make_key(word.data(), word.size(), end);
      const WordCache::Entry* known = plans.find(key);
      if (known == nullptr) {
        if (const size_t count = plan(word, scratch, entry); count > 0) {
          plans.insert(key, entry.data(), count);
          known = plans.find(key);
        }
      }
      if (known != nullptr && holds(*known, word.size(), sum)) {
        for (size_t i = kPlanNumbers; i < known->num_ids(); ++i) {
          ids.push_back(known->ids[i]);
          sum += scores_[static_cast<size_t>(known->ids[i])];
        }
        continue;
      }
    }
    search(word, sum, scratch, ids);
  }
}

// Each addition errs by 2^-24 of its result at most, on the best way and on every other; a way has
// at most as many as the word has bytes. Nor may any sum on the way begin anew. `lowest` is below
// zero by the largest of them.
bool SentencePieceUnigram::holds(const WordCache::Entry& entry, size_t bytes, float sum) {
  const float lead = std::bit_cast<float>(entry.ids[0]);
  const float lowest = std::bit_cast<float>(entry.ids[1]);
  const float error =
      2.01F / (1 << 24) * static_cast<float>(bytes) * (std::abs(sum) + std::abs(lowest));
  return sum + lowest - 1 > kLeastSum && lead > error;
}

// The entry of a word and the number of its numbers; 0 for a word that has no plan: it has an
// unknown character, or too many pieces.
size_t SentencePieceUnigram::plan(std::string_view word, Scratch& scratch,
                                  std::array<int32_t, WordCache::kMaxIds>& entry) const {
  std::vector<PlanNode>& nodes = scratch.plan;
  nodes.assign(word.size() + 1, PlanNode{});
  double lowest = 0;
  for (size_t begin = 0; begin < word.size();) {
    const double till_here = nodes[begin].score;
    lowest = std::min(lowest, -std::abs(till_here));
    const size_t first_end = begin + characters::read_utf8(word.data() + begin).length;
    bool has_first = false;
    uint32_t at = 0;
    for (size_t end = begin; end < word.size() && pieces_.step(at, word[end]);) {
      ++end;
      const int32_t id = pieces_.value(at);
      if (id < 0) continue;
      has_first = has_first || end == first_end;
      const double score = static_cast<double>(scores_[static_cast<size_t>(id)]) + till_here;
      PlanNode& node = nodes[end];
      if (node.id < 0) {
        node = {score, -std::numeric_limits<double>::infinity(), static_cast<uint32_t>(begin), id};
      } else if (score > node.score) {
        node = {score, node.score, static_cast<uint32_t>(begin), id};
      } else {
        node.second = std::max(node.second, score);
      }
    }
    if (!has_first) return 0;
    begin = first_end;
  }
  lowest = std::min(lowest, -std::abs(nodes[word.size()].score));
  double lead = std::numeric_limits<float>::max();
  size_t count = entry.size();
  for (size_t end = word.size(); end > 0; end = nodes[end].begin) {
    if (count == kPlanNumbers) return 0;
    entry[--count] = nodes[end].id;
    lead = std::min(lead, nodes[end].score - nodes[end].second);
  }
  std::copy(entry.begin() + static_cast<ptrdiff_t>(count), entry.end(),
            entry.begin() + kPlanNumbers);
  entry[0] = std::bit_cast<int32_t>(static_cast<float>(lead));
  entry[1] = std::bit_cast<int32_t>(static_cast<float>(lowest));
  return kPlanNumbers + entry.size() - count;
}

// As the library does it, from the sum before the text to the one behind it.
void SentencePieceUnigram::search(std::string_view text, float& sum, Scratch& scratch,
                                  std::vector<int32_t>& ids) const {
  std::vector<Node>& nodes = scratch.nodes;
  nodes.assign(text.size() + 1, Node{});
  nodes[0].score = sum;
  for (size_t begin = 0; begin < text.size();) {
    if (const float low = nodes[begin].score; low < kLeastSum) {
      const size_t last = std::min(begin + longest_, text.size());
      for (size_t end = begin + 1; end <= last; ++end)
        if (nodes[end].id >= 0) nodes[end].score -= low;
      nodes[begin].score = 0;
    }
    const float till_here = nodes[begin].score;
    const size_t first_end = begin + characters::read_utf8(text.data() + begin).length;
    const auto offer = [&](size_t end, int32_t id, float score) {
      Node& node = nodes[end];
      if (node.id < 0 || score > node.score) node = {score, static_cast<uint32_t>(begin), id};
    };
    bool has_first = false;
    uint32_t at = 0;
    for (size_t end = begin; end < text.size() && pieces_.step(at, text[end]);) {
      ++end;
      const int32_t id = pieces_.value(at);
      if (id < 0) continue;
      offer(end, id, scores_[static_cast<size_t>(id)] + till_here);
      has_first = has_first || end == first_end;
    }
    if (!has_first) offer(first_end, options_.unknown_id, unknown_score_ + till_here);
    begin = first_end;
  }
  sum = nodes[text.size()].score;
  // Back from the end, then turned round.
  const size_t before = ids.size();
  for (size_t end = text.size(); end > 0;) {
    size_t begin = nodes[end].begin;
    if (nodes[end].id == options_.unknown_id) {
      while (begin > 0 && nodes[begin].id == options_.unknown_id) begin = nodes[begin].begin;
      const size_t from = ids.size();
      append_unknown(text.substr(begin, end - begin), ids);
      std::reverse(ids.begin() + static_cast<ptrdiff_t>(from), ids.end());
    } else {
      ids.push_back(nodes[end].id);
    }
    end = begin;
  }
  std::reverse(ids.begin() + static_cast<ptrdiff_t>(before), ids.end());
}

}  // namespace megalith::tokenize

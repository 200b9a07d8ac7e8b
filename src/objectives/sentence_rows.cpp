// SPDX-License-Identifier: Apache-2.0
#include "objectives/sentence_rows.h"

#include <algorithm>
#include <random>
#include <utility>

namespace megalith::objectives {
namespace {

class Targets {
 public:
  explicit Targets(const SentenceRowOptions& options)
      : random_(options.seed), most_(static_cast<uint32_t>(options.most_tokens)) {}
  int32_t next() {
    const auto drawn = static_cast<uint32_t>(random_());
    const bool is_short = drawn % kShortRatio == 0;
    return static_cast<int32_t>(is_short ? 2 + drawn % (most_ - 1) : most_);
  }

 private:
  std::mt19937 random_;
  uint32_t most_;
};

}  // namespace

std::vector<SentenceRow> sentence_rows(std::span<const int32_t> lengths,
                                       std::span<const int64_t> documents,
                                       const SentenceRowOptions& options) {
  std::vector<SentenceRow> rows;
  Targets targets(options);
  for (size_t d = 0; d + 1 < documents.size(); ++d) {
    const int64_t begin = documents[d], end = documents[d + 1];
    if (end - begin < std::max<int64_t>(options.least_sentences, 1)) continue;
    const auto sentences = lengths.subspan(static_cast<size_t>(begin - documents.front()),
                                           static_cast<size_t>(end - begin));
    const bool has_long = end - begin > 1 && std::ranges::max(sentences) > kLongSentence;
    if (has_long) continue;
    const auto document = static_cast<int64_t>(d);
    SentenceRow row{begin, begin, targets.next(), document};
    int64_t tokens = 0;
    while (row.end < end) {
      tokens += sentences[static_cast<size_t>(row.end++ - begin)];
      const bool is_full = tokens >= row.wanted && end - row.end > 1 &&
                           row.end - row.begin >= options.least_sentences;
      if (!is_full && row.end < end) continue;
      rows.push_back(row);
      row = {row.end, row.end, targets.next(), document};
      tokens = 0;
    }
  }
  return rows;
}

void shuffle_rows(std::span<SentenceRow> rows, uint32_t seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed) + 1);
  for (size_t i = rows.size(); i-- > 1;) std::swap(rows[i], rows[random() % (i + 1)]);
}

}  // namespace megalith::objectives

// SPDX-License-Identifier: Apache-2.0
#include "questions/answer_spans.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "base/check.h"

namespace megalith::questions {
namespace {

/// The tokens with the largest numbers of a column, in that order; of equal ones the first.
std::vector<int64_t> largest(const TokenScores& scores, size_t column, int64_t count) {
  std::vector<int64_t> tokens(scores.size());
  std::iota(tokens.begin(), tokens.end(), int64_t{0});
  std::ranges::stable_sort(tokens, std::ranges::greater{}, [&](int64_t token) {
    return scores[static_cast<size_t>(token)][column];
  });
  tokens.resize(std::min(tokens.size(), static_cast<size_t>(count)));
  return tokens;
}

struct Candidate {
  double score = -std::numeric_limits<double>::infinity();
  text::TextRange place;
};

/// The best of a window, and of `best`, which came before.
void take_best(const QuestionWindow& window, const TokenScores& scores, const AnswerRule& rule,
               std::optional<Candidate>& best) {
  const auto place_of = [&](int64_t token) -> const text::TextRange* {
    const int64_t number = token - window.context_begin;
    if (number < 0 || number >= std::ssize(window.places)) return nullptr;
    return &window.places[static_cast<size_t>(number)];
  };
  const std::vector<int64_t> ends = largest(scores, 1, rule.best);
  for (const int64_t first : largest(scores, 0, rule.best)) {
    for (const int64_t last : ends) {
      const text::TextRange* const from = place_of(first);
      const text::TextRange* const to = place_of(last);
      if (from == nullptr || to == nullptr || last < first || last - first >= rule.most_tokens)
        continue;
      const double score =
          scores[static_cast<size_t>(first)][0] + scores[static_cast<size_t>(last)][1];
      if (to->end <= from->begin || (best && score <= best->score)) continue;
      best = Candidate{score, {from->begin, to->end}};
    }
  }
}

}  // namespace

std::string best_answer(const std::string& context, std::span<const QuestionWindow> windows,
                        std::span<const TokenScores> scores, const AnswerRule& rule) {
  MEGA_CHECK_EQ(windows.size(), scores.size());
  std::optional<Candidate> best;
  double none = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < windows.size(); ++i) {
    MEGA_CHECK_EQ(windows[i].ids.size(), scores[i].size());
    take_best(windows[i], scores[i], rule, best);
    none = std::min(none, scores[i].front()[0] + scores[i].front()[1]);
  }
  if (!best || (rule.may_be_none && none - best->score > rule.none_threshold)) return "";
  const text::TextRange& place = best->place;
  return context.substr(static_cast<size_t>(place.begin),
                        static_cast<size_t>(place.end - place.begin));
}

}  // namespace megalith::questions

// SPDX-License-Identifier: Apache-2.0
#include "questions/answer_spans.h"

#include <algorithm>
#include <numeric>

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

}  // namespace

WindowAnswer window_answer(const QuestionWindow& window, const TokenScores& scores,
                           const AnswerRule& rule) {
  MEGA_CHECK_LE(window.context_begin + std::ssize(window.places), std::ssize(scores));
  const auto place_of = [&](int64_t token) -> const text::TextRange* {
    const int64_t number = token - window.context_begin;
    if (number < 0 || number >= std::ssize(window.places)) return nullptr;
    return &window.places[static_cast<size_t>(number)];
  };
  WindowAnswer best{.none = scores.front()[0] + scores.front()[1]};
  const std::vector<int64_t> ends = largest(scores, 1, rule.best);
  for (const int64_t first : largest(scores, 0, rule.best)) {
    for (const int64_t last : ends) {
      const text::TextRange* const from = place_of(first);
      const text::TextRange* const to = place_of(last);
      if (from == nullptr || to == nullptr || last < first || last - first >= rule.most_tokens)
        continue;
      const double score =
          scores[static_cast<size_t>(first)][0] + scores[static_cast<size_t>(last)][1];
      if (to->end <= from->begin || score <= best.score) continue;
      best.score = score;
      best.place = {from->begin, to->end};
    }
  }
  return best;
}

std::string best_answer(const std::string& context, std::span<const WindowAnswer> windows,
                        const AnswerRule& rule) {
  WindowAnswer best;
  double none = std::numeric_limits<double>::infinity();
  for (const WindowAnswer& window : windows) {
    none = std::min(none, window.none);
    if (window.score > best.score) best = window;
  }
  const text::TextRange& place = best.place;
  if (place.end <= place.begin || (rule.may_be_none && none - best.score > rule.none_threshold))
    return "";
  return context.substr(static_cast<size_t>(place.begin),
                        static_cast<size_t>(place.end - place.begin));
}

}  // namespace megalith::questions

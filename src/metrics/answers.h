// SPDX-License-Identifier: Apache-2.0
// How well a text answers a question: SQuAD's exact match and F1 (Rajpurkar et al. 2016), as its
// official script computes them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace megalith::metrics {

/// In lower case, without ASCII punctuation, without the words a, an and the, one blank between
/// words.
std::string normalized_answer(std::string_view answer);
/// 1 or 0: the best over the right answers, of which there is at least one.
double answer_match(std::string_view answer, std::span<const std::string> right);
/// The harmonic mean of precision and recall of words, likewise.
double answer_f1(std::string_view answer, std::span<const std::string> right);

struct AnswerScore {
  double exact_match = 0;
  double f1 = 0;
};
/// Both. With `may_be_none` as the script of SQuAD 2.0 (Rajpurkar et al. 2018) scores, where
/// questions may be unanswerable: right answers that normalise to nothing do not count, and where
/// no other is left, only an answer that normalises to nothing is right. Without it, as version
/// 1.1: there is at least one right answer.
AnswerScore answer_score(std::string_view answer, std::span<const std::string> right,
                         bool may_be_none);

/// The mean of at least one question's scores in percent, with the roundings of the scripts:
/// 100 * sum / n.
double percent_of(std::span<const double> scores);

}  // namespace megalith::metrics

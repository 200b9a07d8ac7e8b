// SPDX-License-Identifier: Apache-2.0
#include "metrics/answers.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/check.h"
#include "characters/utf8.h"
#include "chat_values/python_text.h"

namespace megalith::metrics {
namespace {

bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

bool is_article(std::string_view word) { return word == "a" || word == "an" || word == "the"; }

/// A character of a word, as \w of a regular expression.
bool is_of_word(uint32_t code) {
  return code == '_' || chat::is_letter(code) || chat::is_digit(code);
}

/// Articles become blanks: words by \b, so that other signs part them too.
std::string without_articles(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    const auto first = characters::read_utf8(text.data() + at);
    if (!is_of_word(first.code)) {
      end += first.length;
      result += text.substr(at, first.length);
    } else {
      while (end < text.size()) {
        const auto next = characters::read_utf8(text.data() + end);
        if (!is_of_word(next.code)) break;
        end += next.length;
      }
      const std::string_view word = text.substr(at, end - at);
      result += is_article(word) ? " " : word;
    }
    at = end;
  }
  return result;
}

/// Between white space.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  const auto end_word = [&](size_t end) {
    if (end > begin) words.push_back(text.substr(begin, end - begin));
  };
  for (size_t at = 0; at < text.size();) {
    const auto next = characters::read_utf8(text.data() + at);
    if (chat::is_space(next.code)) {
      end_word(at);
      begin = at + next.length;
    }
    at += next.length;
  }
  end_word(text.size());
  return words;
}

double word_f1(const std::string& answer, const std::string& right) {
  const auto said = words_of(answer), wanted = words_of(right);
  std::map<std::string_view, int64_t> left;
  for (const std::string_view word : wanted) ++left[word];
  double same = 0;
  for (const std::string_view word : said) {
    if (left[word] > 0) {
      --left[word];
      same += 1;
    }
  }
  if (same == 0) return 0;
  const double precision = same / static_cast<double>(said.size());
  const double recall = same / static_cast<double>(wanted.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::string normalized_answer(std::string_view answer) {
  std::string text = chat::to_lower(answer);
  std::erase_if(text, is_punctuation);
  text = without_articles(text);
  std::string result;
  for (const std::string_view word : words_of(text)) {
    if (!result.empty()) result += ' ';
    result += word;
  }
  return result;
}

double answer_match(std::string_view answer, std::span<const std::string> right) {
  MEGA_CHECK(!right.empty());
  const std::string said = normalized_answer(answer);
  const auto is_said = [&](const std::string& one) { return normalized_answer(one) == said; };
  return std::ranges::any_of(right, is_said) ? 1 : 0;
}

double answer_f1(std::string_view answer, std::span<const std::string> right) {
  MEGA_CHECK(!right.empty());
  const std::string said = normalized_answer(answer);
  double best = 0;
  for (const std::string& one : right) best = std::max(best, word_f1(said, normalized_answer(one)));
  return best;
}

AnswerScore answer_score(std::string_view answer, std::span<const std::string> right,
                         bool may_be_none) {
  if (!may_be_none) return {answer_match(answer, right), answer_f1(answer, right)};
  std::vector<std::string> said(right.begin(), right.end());
  std::erase_if(said, [](const std::string& one) { return normalized_answer(one).empty(); });
  if (!said.empty()) return {answer_match(answer, said), answer_f1(answer, said)};
  const double is_none = normalized_answer(answer).empty() ? 1 : 0;
  return {is_none, is_none};
}

double percent_of(std::span<const double> scores) {
  MEGA_CHECK(!scores.empty());
  double sum = 0;
  for (const double score : scores) sum += score;
  return 100 * sum / static_cast<double>(scores.size());
}

}  // namespace megalith::metrics

// SPDX-License-Identifier: Apache-2.0
#include "questions/question_windows.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/error.h"
#include "text/placed_texts.h"

namespace megalith::questions {

QuestionEncoder::QuestionEncoder(const text::Tokenizer& tokenizer, const WindowRule& rule)
    : tokenizer_(tokenizer), rule_(rule) {
  if (text::place_texts(tokenizer, {}, std::span<const int32_t>()).first_begin == 0)
    throw UserError(
        "the tokenizer puts no special token before a pair of texts, such as [CLS], which is the "
        "target of windows without an answer");
  text::encode_with_places(tokenizer, "a");  // refused once, before any question
}

std::vector<QuestionWindow> QuestionEncoder::windows(const QuestionSet& set,
                                                     const Question& question) {
  const std::string& context = set.contexts[question.context];
  if (context_ != &context) {
    placed_ = text::encode_with_places(tokenizer_, context);
    context_ = &context;
  }
  const size_t begin = question.text.find_first_not_of(" \t\r\n");
  const std::vector<int32_t> asked = tokenizer_.encode(
      begin == std::string::npos ? "" : std::string_view(question.text).substr(begin), false);
  const auto around = text::place_texts(tokenizer_, asked, std::span<const int32_t>());
  const int64_t room = rule_.most_tokens - std::ssize(around.encoding.ids);
  const int64_t all = std::ssize(placed_.ids);
  if (room < 1 || (room < all && room <= rule_.stride)) {
    throw UserError(
        "{}: question {:?} leaves room for {} tokens of its text, and windows share {}; set a "
        "smaller {} or a larger {}",
        set.file, question.id, std::max(room, int64_t{0}), rule_.stride, rule_.stride_key,
        rule_.tokens_key);
  }
  std::vector<QuestionWindow> made;
  for (int64_t first = 0;; first += room - rule_.stride) {
    const int64_t count = std::min(room, all - first);
    const auto part = [&](const auto& list) {
      return std::span(list).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    };
    const std::span<const int32_t> ids = part(placed_.ids);
    text::PlacedTexts placed = text::place_texts(tokenizer_, asked, ids);
    const auto places = part(placed_.places);
    QuestionWindow& window = made.emplace_back();
    window.ids = std::move(placed.encoding.ids);
    if (rule_.has_types) window.types = std::move(placed.encoding.type_ids);
    window.context_begin = placed.second_begin;
    window.places.assign(places.begin(), places.end());
    if (first + count == all) return made;
  }
}

std::pair<int32_t, int32_t> answer_in(const QuestionWindow& window, const Question& question) {
  if (question.answers.empty() || window.places.empty()) return {0, 0};
  const Question::Answer& answer = question.answers.front();
  const std::vector<text::TextRange>& places = window.places;
  if (places.front().begin > answer.begin || places.back().end < answer.end()) return {0, 0};
  const auto first = std::ranges::find_if(
      places, [&](const text::TextRange& place) { return place.begin > answer.begin; });
  const auto last = std::ranges::find_if(
      places, [&](const text::TextRange& place) { return place.end >= answer.end(); });
  const auto number = [&](auto place) {
    return static_cast<int32_t>(window.context_begin + (place - places.begin()));
  };
  return {number(first) - 1, number(last)};
}

}  // namespace megalith::questions

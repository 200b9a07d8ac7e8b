// SPDX-License-Identifier: Apache-2.0
#include "questions/question_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer_fixture.h"

namespace megalith::questions {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

enum Id : int32_t { cls = 2, sep = 3, who, a, b, c, d, e };
using Places = std::vector<text::TextRange>;

text::Tokenizer tokenizer() {
  return text::parse(text::small_wordpiece({"who", "a", "b", "c", "d", "e", "##x"}));
}

/// Of one context and one question about it.
QuestionSet set_of(const std::string& context, const std::string& question,
                   std::vector<Question::Answer> answers) {
  QuestionSet set;
  set.file = "set.json";
  set.contexts = {context};
  set.questions = {{"q", question, 0, std::move(answers)}};
  return set;
}

std::vector<QuestionWindow> windows_of(const QuestionSet& set, const WindowRule& rule) {
  return QuestionEncoder(tokenizer(), rule).windows(set, set.questions[0]);
}

TEST(QuestionWindows, HoldAPair) {
  const QuestionSet set = set_of("a bx  c", " \twho", {});
  const auto windows = windows_of(set, {.most_tokens = 20});
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_THAT(windows[0].ids, ElementsAre(cls, who, sep, a, b, 10, c, sep));
  EXPECT_THAT(windows[0].types, ElementsAre(0, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_EQ(windows[0].context_begin, 3);
  EXPECT_EQ(windows[0].places, (Places{{0, 1}, {2, 3}, {3, 4}, {6, 7}}));
  EXPECT_TRUE(windows_of(set, {.most_tokens = 20, .has_types = false})[0].types.empty());
}

TEST(QuestionWindows, ShareTokens) {
  const QuestionSet set = set_of("a b c d e", "who", {});
  const auto first_ids = [&](const WindowRule& rule) {
    std::vector<std::vector<int32_t>> contexts;
    for (const QuestionWindow& window : windows_of(set, rule))
      contexts.emplace_back(window.ids.begin() + window.context_begin, window.ids.end() - 1);
    return contexts;
  };
  EXPECT_THAT(first_ids({.most_tokens = 7, .stride = 1}),
              ElementsAre(ElementsAre(a, b, c), ElementsAre(c, d, e)));
  EXPECT_THAT(first_ids({.most_tokens = 7, .stride = 2}),
              ElementsAre(ElementsAre(a, b, c), ElementsAre(b, c, d), ElementsAre(c, d, e)));
  EXPECT_THAT(first_ids({.most_tokens = 7, .stride = 0}),
              ElementsAre(ElementsAre(a, b, c), ElementsAre(d, e)));
  EXPECT_THAT([&] { first_ids({.most_tokens = 7, .stride = 3}); },
              ThrowsMessage<UserError>(
                  Eq("set.json: question \"q\" leaves room for 3 tokens of its text, and windows "
                     "share 3; set a smaller tune.stride or a larger train.sequence_length")));
  EXPECT_THAT(
      [&] {
        first_ids(
            {.most_tokens = 7, .stride = 3, .tokens_key = "--length", .stride_key = "--stride"});
      },
      ThrowsMessage<UserError>(HasSubstr("set a smaller --stride or a larger --length")));
  EXPECT_THAT([&] { first_ids({.most_tokens = 4, .stride = 0}); },
              ThrowsMessage<UserError>(HasSubstr("leaves room for 0 tokens")));
  // What fits needs nothing to share.
  EXPECT_EQ(first_ids({.most_tokens = 9, .stride = 128}).size(), 1u);
}

TEST(QuestionWindows, AnswersAreTokensOrTheFirstOne) {
  const QuestionSet set = set_of("a bx c d e", "who", {{"x c", 3}, {"a", 0}});
  const auto spans = [&](const WindowRule& rule) {
    std::vector<std::pair<int32_t, int32_t>> all;
    for (const QuestionWindow& window : windows_of(set, rule))
      all.push_back(answer_in(window, set.questions[0]));
    return all;
  };
  using Span = std::pair<int32_t, int32_t>;
  EXPECT_THAT(spans({.most_tokens = 20}), ElementsAre(Span(5, 6)));
  // [a b ##x] [##x c d] [d e]: it is whole in the second alone.
  EXPECT_THAT(spans({.most_tokens = 7, .stride = 1}),
              ElementsAre(Span(0, 0), Span(3, 4), Span(0, 0)));
  const QuestionSet part = set_of("a bx c", "who", {{"b", 2}});
  EXPECT_EQ(answer_in(windows_of(part, {.most_tokens = 20})[0], part.questions[0]), Span(4, 4));
  const QuestionSet none = set_of("a b", "who", {});
  EXPECT_EQ(answer_in(windows_of(none, {.most_tokens = 20})[0], none.questions[0]), Span(0, 0));
}

TEST(QuestionWindows, NeedPlacesAndATokenInFront) {
  EXPECT_THAT([] { QuestionEncoder(text::parse(text::small_tokenizer({})), {}); },
              ThrowsMessage<UserError>(HasSubstr("no special token before a pair")));
}

}  // namespace
}  // namespace megalith::questions

// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include <random>

namespace megalith::text {
namespace {

// "text" as is, tokens as "[id:text]".
std::string split(const AddedTokenMatcher& matcher, std::string_view text) {
  std::vector<TextPart> parts;
  matcher.split(text, parts);
  std::string shown;
  for (const TextPart& part : parts) {
    if (!shown.empty()) shown += "/";
    shown += part.id < 0 ? std::string(part.text)
                         : "[" + std::to_string(part.id) + ":" + std::string(part.text) + "]";
  }
  return shown;
}

AddedTokenMatcher matcher_of(std::vector<AddedToken> tokens) {
  AddedTokenMatcher matcher;
  for (const AddedToken& token : tokens) matcher.add(token);
  return matcher;
}

TEST(AddedTokens, LeftmostThenLongest) {
  const AddedTokenMatcher matcher = matcher_of({{.id = 1, .content = "<|a|>"},
                                                {.id = 2, .content = "<|a|>b"},
                                                {.id = 3, .content = "|>bc"},
                                                {.id = 4, .content = "xyz"}});
  EXPECT_EQ(split(matcher, "q<|a|>bcxyz"), "q/[2:<|a|>b]/c/[4:xyz]");
  EXPECT_EQ(split(matcher, "<|a|><|a|>"), "[1:<|a|>]/[1:<|a|>]");
  EXPECT_EQ(split(matcher, "<|<|a|>"), "<|/[1:<|a|>]");
  EXPECT_EQ(split(matcher, "<|a|"), "<|a|");
  EXPECT_EQ(split(matcher, ""), "");
  EXPECT_EQ(split(AddedTokenMatcher(), "plain"), "plain");
}

TEST(AddedTokens, StrippingTakesWhiteSpace) {
  const AddedTokenMatcher left = matcher_of({{.id = 1, .content = "<m>", .lstrip = true}});
  EXPECT_EQ(split(left, "a \n\xC2\xA0<m> b"), "a/[1: \n\xC2\xA0<m>]/ b");
  const AddedTokenMatcher right = matcher_of({{.id = 1, .content = "<m>", .rstrip = true}});
  EXPECT_EQ(split(right,
                  "a <m> \xE3\x80\x80"
                  "b"),
            "a /[1:<m> \xE3\x80\x80]/b");
  const AddedTokenMatcher both =
      matcher_of({{.id = 1, .content = "<m>", .lstrip = true, .rstrip = true}});
  EXPECT_EQ(split(both, "<m>  <m>"), "[1:<m>  ]/[1:<m>]");  // what is taken is taken
  const AddedTokenMatcher lines =
      matcher_of({{.id = 1, .content = "\n\n", .lstrip = true, .rstrip = true}});
  EXPECT_EQ(split(lines, "a\n\n\n\nb"), "a/[1:\n\n\n\n]/b");
}

TEST(AddedTokens, SingleWordNeedsNoWordCharacterBeside) {
  const AddedTokenMatcher matcher = matcher_of({{.id = 1, .content = "cat", .single_word = true}});
  EXPECT_EQ(split(matcher,
                  "cat cat. concat cats _cat \xC3\xA9"
                  "cat -cat"),
            "[1:cat]/ /[1:cat]/. concat cats _cat \xC3\xA9"
            "cat -/[1:cat]");
}

TEST(AddedTokens, PartsJoinedAreTheText) {
  std::mt19937 draw(1);
  const AddedTokenMatcher matcher = matcher_of({{.id = 1, .content = "ab"},
                                                {.id = 2, .content = "aba", .lstrip = true},
                                                {.id = 3, .content = "-b", .rstrip = true},
                                                {.id = 4, .content = "ba", .single_word = true}});
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text, joined;
    for (size_t i = draw() % 20; i > 0; --i) text.push_back("ab -"[draw() % 4]);
    std::vector<TextPart> parts;
    matcher.split(text, parts);
    for (const TextPart& part : parts) joined += part.text;
    ASSERT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace megalith::text

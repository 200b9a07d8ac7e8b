// SPDX-License-Identifier: Apache-2.0
// Expected parts are those of Hugging Face tokenizers 0.23.3.
#include "tokenize/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex.h>

#include "base/error.h"

namespace megalith::tokenize {
namespace {

using List = std::vector<std::string>;

// Matches in brackets.
std::string parts(const char* pattern, std::string_view text) {
  std::vector<Regex::Match> matches;
  Regex(pattern, "x").find(text, matches);
  std::string shown;
  for (const Regex::Match& match : matches) {
    const std::string part(text.substr(match.begin, match.end - match.begin));
    shown += match.is_match ? "[" + part + "]" : part;
  }
  return shown;
}

std::string replaced(const char* pattern, std::string_view text, std::string_view to) {
  std::string out;
  Regex(pattern, "x").append_replaced(text, to, out);
  return out;
}

TEST(Regex, FindsMatchesAndWhatLiesBetween) {
  EXPECT_EQ(parts("b+", "abbcb"), "a[bb]c[b]");
  EXPECT_EQ(parts("b+", ""), "");
  EXPECT_EQ(parts("x", "abc"), "abc");
  EXPECT_EQ(parts(R"(\p{Lu}\p{Ll}*)", "HelloWorld \xC3\x89t\xC3\xA9"),
            "[Hello][World] [\xC3\x89t\xC3\xA9]");
  EXPECT_EQ(parts(R"((?<=a)b(?!c))", "abcab"), "abca[b]");
}

// One that lies just behind the match before is passed over.
TEST(Regex, EmptyMatchesSplit) {
  EXPECT_EQ(parts("(?=b)", "abcb"), "a[]bc[]b");
  EXPECT_EQ(parts("x*", "a\xC3\xA9"), "[]a[]\xC3\xA9[]");
  EXPECT_EQ(parts("b*", "abba"), "[]a[bb]a[]");
  EXPECT_EQ(replaced("b*", "abba", "-"), "-a-a-");
}

TEST(Regex, BadPatternsAreRefused) {
  for (const std::string& pattern :
       {std::string("("), std::string("[a"), std::string("*"), std::string("\\p{Nonsense}"),
        std::string(20000, 'a'), std::string(200, '(') + std::string(200, ')')})
    EXPECT_THAT([&] { Regex(pattern, "f.json"); },
                testing::ThrowsMessage<UserError>(testing::StartsWith("f.json")))
        << pattern.substr(0, 20);
}

TEST(Regex, StepsAreBounded) {
  std::vector<Regex::Match> matches;
  const Regex regex("(?:a|a|aa)+$", "x");
  EXPECT_THAT([&] { regex.find(std::string(200, 'a') + "b", matches); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("limit")));
}

// Oniguruma's own regexec finds nothing in an empty text.
TEST(Regex, PosixNamesAreThoseOfTheCLibrary) {
  regex_t pattern{};
  ASSERT_EQ(::regcomp(&pattern, "()", REG_EXTENDED), 0);
  regmatch_t match{};
  EXPECT_EQ(::regexec(&pattern, "", 1, &match, 0), 0);
  ::regfree(&pattern);
}

}  // namespace
}  // namespace megalith::tokenize

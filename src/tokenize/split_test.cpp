// SPDX-License-Identifier: Apache-2.0
#include "tokenize/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/regex.h>

#include <memory>
#include <string>
#include <vector>

#include "tokenize/random_text_fixture.h"

namespace megalith::tokenize {
namespace {

using Words = std::vector<std::string>;
constexpr SplitPattern kPatterns[] = {SplitPattern::gpt2,   SplitPattern::llama3,
                                      SplitPattern::cl100k, SplitPattern::qwen2,
                                      SplitPattern::o200k,  SplitPattern::tekken};

Words words_of(SplitPattern pattern, std::string_view text) {
  Words words;
  const WordScanner scanner = word_scanner(pattern);
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    const char* next = scanner(at, end);
    words.emplace_back(at, next);
    at = next;
  }
  return words;
}
Words gpt2(std::string_view text) { return words_of(SplitPattern::gpt2, text); }
Words llama3(std::string_view text) { return words_of(SplitPattern::llama3, text); }

// The published regular expression run by ICU. Its \s is another set, so White_Space is spelled
// out.
class Reference {
 public:
  explicit Reference(SplitPattern pattern) {
    const std::string space = R"(\u0009-\u000D\u0020\u0085\p{Z})";
    std::string regex;
    const std::string_view published = pattern_regex(pattern);
    bool in_set = false;
    for (size_t i = 0; i < published.size(); ++i) {
      if (published[i] == '[') in_set = true;
      if (published[i] == ']') in_set = false;
      if (published.substr(i, 2) == "\\s" || published.substr(i, 2) == "\\S") {
        const bool negated = published[++i] == 'S';
        regex += in_set ? space : std::string(negated ? "[^" : "[") + space + "]";
      } else {
        regex += published[i];
      }
    }
    UErrorCode status = U_ZERO_ERROR;
    matcher_ = std::make_unique<icu::RegexMatcher>(icu::UnicodeString::fromUTF8(regex), 0, status);
    if (U_FAILURE(status)) throw std::runtime_error(u_errorName(status));
  }
  Words words_of(std::string_view text) {
    const icu::UnicodeString input = icu::UnicodeString::fromUTF8(
        icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
    matcher_->reset(input);
    Words words;
    UErrorCode status = U_ZERO_ERROR;
    while (matcher_->find(status)) {
      std::string word;
      matcher_->group(status).toUTF8String(word);
      words.push_back(word);
    }
    return words;
  }

 private:
  std::unique_ptr<icu::RegexMatcher> matcher_;
};

TEST(Split, Gpt2ByHand) {
  EXPECT_EQ(gpt2("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(gpt2("it's they'll we've I'd I'm you're don't"),
            (Words{"it", "'s", " they", "'ll", " we", "'ve", " I", "'d", " I", "'m", " you", "'re",
                   " don", "'t"}));
  EXPECT_EQ(gpt2("IT'S"), (Words{"IT", "'", "S"}));  // small letters only
  EXPECT_EQ(gpt2("'lx 'l"), (Words{"'", "lx", " '", "l"}));
  EXPECT_EQ(gpt2("1234 5678"), (Words{"1234", " 5678"}));
  EXPECT_EQ(gpt2("a  b"), (Words{"a", " ", " b"}));
  EXPECT_EQ(gpt2("a \n b"), (Words{"a", " \n", " b"}));
  EXPECT_EQ(gpt2("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(gpt2("a   "), (Words{"a", "   "}));
  EXPECT_EQ(gpt2("x!?\n"), (Words{"x", "!?", "\n"}));
  EXPECT_EQ(gpt2(""), Words{});
}

TEST(Split, O200kByHand) {
  const auto o200k = [](std::string_view text) { return words_of(SplitPattern::o200k, text); };
  EXPECT_EQ(o200k("helloWorld HTMLParser"), (Words{"hello", "World", " HTMLParser"}));
  EXPECT_EQ(o200k("ABC it's IT'S"), (Words{"ABC", " it's", " IT'S"}));
  EXPECT_EQ(o200k("a1234!"), (Words{"a", "123", "4", "!"}));
  EXPECT_EQ(o200k("x!/\n/\r\nb"), (Words{"x", "!/\n/\r\n", "b"}));
  EXPECT_EQ(o200k("\xE4\xB8\xAD"
                  "AB"),
            (Words{"\xE4\xB8\xAD", "AB"}));  // gives back to W+
  EXPECT_EQ(o200k("A\xE4\xB8\xAD"
                  "BC d"),
            (Words{"A\xE4\xB8\xAD", "BC", " d"}));
  EXPECT_EQ(o200k("\xCC\x81"
                  "AB"),
            (Words{"\xCC\x81", "AB"}));  // a mark by itself
  EXPECT_EQ(o200k("e\xCC\x81t\xC3\xA9"), (Words{"e\xCC\x81t\xC3\xA9"}));
  EXPECT_EQ(o200k(" \n  x"), (Words{" \n", " ", " x"}));
}

TEST(Split, Llama3ByHand) {
  EXPECT_EQ(llama3("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(llama3("IT'S it's"), (Words{"IT", "'S", " it", "'s"}));
  EXPECT_EQ(llama3("'\xC5\xBFx"), (Words{"'\xC5\xBF", "x"}));  // the long s folds to s
  EXPECT_EQ(llama3("1234567 89"), (Words{"123", "456", "7", " ", "89"}));
  EXPECT_EQ(llama3("(hello ((hi"), (Words{"(hello", " ((", "hi"}));
  EXPECT_EQ(llama3("x!?\n\nb"), (Words{"x", "!?\n\n", "b"}));
  EXPECT_EQ(llama3("a \n \n  b"), (Words{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(llama3("a\n\nb"), (Words{"a", "\n\n", "b"}));
  EXPECT_EQ(llama3("\tword\nword"), (Words{"\tword", "\n", "word"}));
  EXPECT_EQ(llama3("a   "), (Words{"a", "   "}));
  EXPECT_EQ(words_of(SplitPattern::qwen2, "a1234"), (Words{"a", "1", "2", "3", "4"}));
}

TEST(Split, Cl100kEndsWithAllWhiteSpace) {
  const auto cl100k = [](std::string_view text) { return words_of(SplitPattern::cl100k, text); };
  EXPECT_EQ(cl100k("a \n  b"), (Words{"a", " \n", " ", " b"}));
  EXPECT_EQ(cl100k("a \n  "), (Words{"a", " \n  "}));
  EXPECT_EQ(llama3("a \n  "), (Words{"a", " \n", "  "}));
}

TEST(Split, TekkenByHand) {
  const auto tekken = [](std::string_view text) { return words_of(SplitPattern::tekken, text); };
  EXPECT_EQ(tekken("it's helloWorld"), (Words{"it", "'s", " hello", "World"}));
  EXPECT_EQ(tekken("IT'S 12"), (Words{"IT", "'S", " ", "1", "2"}));
}

TEST(Split, MarkedWordsBeginAtRunsOfMarks) {
  const auto words = [](std::string_view text) {
    Words found;
    for (const char *at = text.data(), *end = at + text.size(); at < end;) {
      const char* next = scan_marked_word(at, end);
      found.emplace_back(at, next);
      at = next;
    }
    return found;
  };
  const std::string mark = "\xE2\x96\x81";
  EXPECT_EQ(words(mark + "a" + mark + mark + "b"), (Words{mark + "a", mark + mark + "b"}));
  EXPECT_EQ(words("a\xE2\x96\x80 b" + mark), (Words{"a\xE2\x96\x80 b", mark}));
  EXPECT_EQ(words("\xE2\x96\x80"), (Words{"\xE2\x96\x80"}));
}

TEST(Split, UnicodeSpacesDigitsAndMarks) {
  EXPECT_EQ(gpt2("a\xC2\xA0"
                 "b"),
            (Words{"a", "\xC2\xA0", "b"}));  // U+00A0 is not the optional ' '
  EXPECT_EQ(gpt2("a\xC2\x85\xE3\x80\x80"
                 "b"),
            (Words{"a", "\xC2\x85", "\xE3\x80\x80", "b"}));
  EXPECT_EQ(llama3("a\xC2\xA0"
                   "b"),
            (Words{"a",
                   "\xC2\xA0"
                   "b"}));
  EXPECT_EQ(llama3("a\xC2\x85\nb"), (Words{"a", "\xC2\x85\n", "b"}));
  EXPECT_EQ(llama3("\xE4\xB8\xAD\xE6\x96\x87\xE3\x80\x82"),
            (Words{"\xE4\xB8\xAD\xE6\x96\x87", "\xE3\x80\x82"}));
  EXPECT_EQ(gpt2("\xD9\xA0\xC2\xB2\xE2\x85\xA7"), (Words{"\xD9\xA0\xC2\xB2\xE2\x85\xA7"}));
  EXPECT_EQ(gpt2("e\xCC\x81t"), (Words{"e", "\xCC\x81", "t"}));  // a mark is no letter
  EXPECT_EQ(gpt2("a\x1C"
                 "b"),
            (Words{"a", "\x1C", "b"}));  // U+001C is no space
}

// ICU's tables are a Unicode version behind: texts with characters it does not know are passed
// over.
bool is_known_to_icu(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const characters::CodePoint point = characters::read_utf8(text.data() + at);
    if (!u_isdefined(static_cast<UChar32>(point.code))) return false;
    at += point.length;
  }
  return true;
}

TEST(Split, ScannersAgreeWithTheRegularExpressions) {
  std::mt19937 draw(2);
  for (const SplitPattern pattern : kPatterns) {
    Reference reference(pattern);
    int compared = 0;
    for (int trial = 0; trial < 6000; ++trial) {
      const std::string text = random_text(draw, 1 + draw() % 24);
      if (!is_known_to_icu(text)) continue;
      ASSERT_EQ(words_of(pattern, text), reference.words_of(text)) << pattern_name(pattern);
      ++compared;
    }
    EXPECT_GT(compared, 1000);
  }
}

TEST(Split, WordsJoinedAreTheText) {
  std::mt19937 draw(3);
  for (const SplitPattern pattern : kPatterns)
    for (int trial = 0; trial < 300; ++trial) {
      const std::string text = random_text(draw, draw() % 200);
      std::string joined;
      for (const std::string& word : words_of(pattern, text)) {
        ASSERT_FALSE(word.empty());
        joined += word;
      }
      ASSERT_EQ(joined, text);
    }
}

TEST(Split, SafeCutKeepsTheWords) {
  std::mt19937 draw(4);
  size_t cuts = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text;
    for (int i = 0; i < 5; ++i) text += random_text(draw, draw() % 8) + "a b";
    const size_t cut = find_safe_cut(text, draw() % text.size());
    ASSERT_GT(cut, 0u);
    if (cut < text.size()) ++cuts;
    for (const SplitPattern pattern : kPatterns) {
      Words joined = words_of(pattern, std::string_view(text).substr(0, cut));
      for (std::string& word : words_of(pattern, std::string_view(text).substr(cut)))
        joined.push_back(std::move(word));
      ASSERT_EQ(joined, words_of(pattern, text)) << text;
    }
  }
  EXPECT_GT(cuts, 100u);
  EXPECT_EQ(find_safe_cut("abc", 1), 3u);
  EXPECT_EQ(find_safe_cut("ab cd ef", 7), 5u);
}

TEST(Split, NamesAndSpellingsComeBack) {
  for (const SplitPattern pattern : kPatterns) {
    EXPECT_EQ(pattern_of_name(pattern_name(pattern)), pattern);
    EXPECT_EQ(pattern_of_regex(pattern_regex(pattern)), pattern);
  }
  EXPECT_EQ(pattern_of_name("gpt5"), std::nullopt);
  EXPECT_EQ(pattern_of_regex(R"(\w+|\s+)"), std::nullopt);
}

}  // namespace
}  // namespace megalith::tokenize

// SPDX-License-Identifier: Apache-2.0
// What a hostile grammar may cost: each ends at once, with one line that says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "grammars/grammar_fixture.h"

namespace megalith::grammars {
namespace {

using testing::HasSubstr;

/// Of the processor: what else runs does not count.
class Clock {
 public:
  double seconds() const { return static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC; }

 private:
  std::clock_t begin_ = std::clock();
};

// Many times what is measured, for slow machines; AddressSanitizer takes some thirty times as long.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr double kSlower = 4;
#else
constexpr double kSlower = 1;
#endif
#else
constexpr double kSlower = 1;
#endif
constexpr double kMostSeconds = 30 * kSlower;

std::string refusal(const auto& make) {
  const Clock clock;
  std::string message;
  try {
    make();
  } catch (const UserError& error) {
    message = error.what();
  }
  EXPECT_LT(clock.seconds(), kMostSeconds) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

/// d0 refers twice to d1, d1 twice to d2 ...
std::string doubling(const char* keyword, int count) {
  std::string defs;
  for (int i = 0; i < count; ++i)
    defs +=
        fmt::format(R"("d{}": {{"{}": [{{"$ref": "#/$defs/d{}"}}, {{"$ref": "#/$defs/d{}"}}]}}, )",
                    i, keyword, i + 1, i + 1);
  return fmt::format(R"({{"$ref": "#/$defs/d0", "$defs": {{{} "d{}": {{"type": "null"}}}}}})", defs,
                     count);
}

TEST(Limits, LargeGrammarsAreRefused) {
  const std::pair<std::string, const char*> schemas[] = {
      {repeated(R"({"items": )", 65) + "{}" + repeated("}", 65), "nested too deeply"},
      {std::string(kMostGrammarBytes, ' ') + "{}", "more than 1048576 bytes"},
      {R"({"maxLength": 9223372036854775807})", "more than 1048576 states"},
      {R"({"minLength": 1000000000})", "more than 1048576 states"},
      {R"({"items": {"type": "integer"}, "maxItems": 1000000000000})", "too large"},
      {R"({"minItems": 1000000000000})", "too large"},
      {R"({"additionalProperties": true, "maxProperties": 1000000000000})", "too large"},
      {doubling("anyOf", 60), "too large"},
      {doubling("allOf", 60), ""},  // all the same, and so one
      {R"({"pattern": "(a|b)*a(a|b){30}"})", "too large"},
      {R"({"pattern": "^(a?){5000}$", "maxLength": 5000})", "too large"},
      {R"({"pattern": "(((((a{1000}){1000}){1000}){1000}){1000}){1000}"})", "too large"},
      {R"({"pattern": "((((){10000}){10000}){10000}){10000}"})", "too large"},
      {R"({"pattern": ")" + repeated("(", 5000) + repeated(")", 5000) + "\"}", "nested too deeply"},
      {R"({"items": {"maxLength": 1000, "pattern": "^[a-c]*$"}, "maxItems": 1000})", ""},
  };
  for (const auto& [source, message] : schemas)
    EXPECT_THAT(refusal([&, given = source] { schema(given); }), HasSubstr(message))
        << source.substr(0, 100);
  std::string patterns;
  for (int i = 0; i < 200; ++i)
    patterns += fmt::format(R"({}{{"pattern": "(a|b)*a(a|b){{9}}{}"}})", i == 0 ? "" : ", ", i);
  EXPECT_THAT(refusal([&] { schema(R"({"anyOf": [)" + patterns + "]}"); }), HasSubstr("too large"));
  EXPECT_THAT(
      refusal([] { Grammar::choices(std::vector<std::string>(3, std::string(400'000, 'a'))); }),
      HasSubstr("choices of more than"));
  EXPECT_THAT(refusal([] { Grammar::regex("[a-z]{10000}[a-z]{10000}"); }), HasSubstr("too large"));
}

// Little text that would be copied, kept or compared often.
TEST(Limits, WorkOnASchemaIsBounded) {
  const std::string more = "building it takes more than 8000000 steps";
  std::string names, nulls = "\"null\"", empty, values = "0";
  for (int i = 0; i < 40'000; ++i) names += fmt::format(R"({}"p{}": 1)", i == 0 ? "" : ", ", i);
  for (int i = 0; i < 12'000; ++i) nulls += ", \"null\"";
  for (int i = 0; i < 3'000; ++i) empty += ", {}";
  for (int i = 1; i < 12'000; ++i) values += fmt::format(", {}", i);
  const std::string letters(100'000, 'a');
  for (const std::string& source :
       {R"({"const": {)" + names + "}}",
        R"({"allOf": [{"pattern": ")" + letters + "\"}" + empty + "]}",
        R"({"allOf": [{"properties": {")" + letters + R"(": {}}})" + empty + "]}",
        R"({"pattern": ")" + letters + R"(", "anyOf": [{})" + empty + "]}",
        R"({"allOf": [{"type": [)" + nulls + R"(]}, {"type": [)" + nulls + ", 1]}]}",
        R"({"allOf": [{"enum": [)" + values + R"(]}, {"enum": [)" + values + ", null]}]}"})
    EXPECT_THAT(refusal([&] { schema(source); }), HasSubstr(more)) << source.substr(0, 60);
  // Places below a long name are told by its beginning.
  const std::string deep = refusal(
      [&] { schema(R"({"properties": {")" + letters + R"(": {"anyOf": [{"not": {}}]}}})"); });
  EXPECT_THAT(deep, HasSubstr("'not' is not supported"));
  EXPECT_LT(deep.size(), 600U);
}

TEST(Limits, LargeEnumsAreTaken) {
  std::string values;
  for (int i = 0; i < 50'000; ++i) values += fmt::format(R"({}"value-{}")", i == 0 ? "" : ", ", i);
  const Clock clock;
  const Grammar grammar = schema(R"({"enum": [)" + values + "]}");
  EXPECT_TRUE(fits(grammar, "\"value-49999\""));
  EXPECT_FALSE(fits(grammar, "\"value-50000\""));
  EXPECT_LT(clock.seconds(), kMostSeconds);
}

TEST(Limits, ManyPropertiesAndAlternativesAreTaken) {
  std::string properties, alternatives;
  for (int i = 0; i < 500; ++i) {
    properties += fmt::format(R"({}"p{}": {{"type": "integer"}})", i == 0 ? "" : ", ", i);
    alternatives +=
        fmt::format(R"({}{{"properties": {{"name": {{"const": "f{}"}}, "arguments": {{}}}},
                                     "required": ["name", "arguments"]}})",
                    i == 0 ? "" : ", ", i);
  }
  std::mt19937 random(7);
  const auto tokens = std::make_shared<const TokenTrie>(random_vocabulary(random, 2000));
  const Clock clock;
  for (const std::string& source :
       {R"({"properties": {)" + properties + "}}", R"({"anyOf": [)" + alternatives + "]}"}) {
    GrammarState state(std::make_shared<TokenMatcher>(schema(source), tokens));
    for (int step = 0; step < 30; ++step) {
      const std::vector<int32_t> ids = ids_of(mask_of(state));
      if (ids.empty()) break;
      ASSERT_TRUE(state.accept(ids[random() % ids.size()]));
    }
  }
  EXPECT_LT(clock.seconds(), kMostSeconds);
}

TEST(Limits, AmbiguityIsBounded) {
  std::string many;
  for (int i = 0; i < 3000; ++i)
    many += fmt::format(R"({}{{"properties": {{"a": {{"const": {}}}}}, "required": ["a"]}})",
                        i == 0 ? "" : ", ", i);
  GrammarState state(
      std::make_shared<TokenMatcher>(schema(R"({"anyOf": [)" + many + "]}"), byte_tokens()));
  EXPECT_THAT(refusal([&] { mask_of(state); }), HasSubstr("too ambiguous"));
  EXPECT_THAT(refusal([&] { state.accept('{'); }), HasSubstr("too ambiguous"));
}

/// Strings that may be read in so many ways, each in a state of its own, and many tokens for them.
std::shared_ptr<TokenMatcher> ambiguous_strings(int ways, std::mt19937& random) {
  std::string alternatives;
  for (int i = 0; i < ways; ++i)
    alternatives += fmt::format(R"({}{{"type": "string", "pattern": "^([^{}]{{{}}}[^b])*$"}})",
                                i == 0 ? "" : ", ", static_cast<char>('c' + i % 20), 1 + i / 20);
  std::vector<std::string> texts = random_vocabulary(random, 2000);
  for (int i = 0; i < 10'000; ++i) {
    std::string text;
    for (int left = 12; left > 0; --left) text += static_cast<char>('a' + random() % 26);
    texts.push_back(text);
  }
  return std::make_shared<TokenMatcher>(schema(R"({"anyOf": [)" + alternatives + "]}"),
                                        std::make_shared<const TokenTrie>(texts));
}

// What is remembered stays within its bound, and what is not remembered is computed.
TEST(Limits, WhatIsRememberedIsBounded) {
  std::mt19937 random(8);
  const auto matcher = ambiguous_strings(140, random);
  GrammarState state(matcher);
  const Clock clock;
  for (int step = 0; step < 3; ++step) {
    const std::vector<uint64_t> mask = mask_of(state);
    for (int tries = 0; tries < 50; ++tries) {
      const auto id =
          static_cast<int32_t>(random() % static_cast<uint32_t>(state.tokens().num_ids()));
      GrammarState next = state;
      ASSERT_EQ(next.accept(id), has(mask, id)) << state.tokens().text(id);
    }
    ASSERT_TRUE(state.accept(step == 0 ? ids_of(mask)[0] : ids_of(mask).back()));
  }
  EXPECT_LT(clock.seconds(), 4 * kMostSeconds);
  EXPECT_GT(matcher->remembered_bytes(), LevelMachine::kMostTableBytes / 2);
  EXPECT_LT(matcher->remembered_bytes(),
            LevelMachine::kMostTableBytes + MatcherLimits().mask_bytes + (size_t{8} << 20));
}

// The same, whatever has been remembered.
TEST(Limits, StepsOfAMaskAreBounded) {
  std::mt19937 random(9);
  GrammarState state(ambiguous_strings(900, random));
  const std::vector<int32_t> quotes = ids_of(mask_of(state));
  const auto quote =
      std::ranges::find_if(quotes, [&](int32_t id) { return state.tokens().text(id) == "\""; });
  ASSERT_TRUE(quote != quotes.end() && state.accept(*quote));
  for (int again = 0; again < 3; ++again)
    EXPECT_THAT(refusal([&] { mask_of(state); }), HasSubstr("takes more than 16777216 steps"));
}

TEST(Limits, DepthHasNoLimit) {
  GrammarState state(std::make_shared<TokenMatcher>(schema("{}"), byte_tokens()));
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(state.accept('['));
  EXPECT_EQ(state.depth(), 20'000U);
  EXPECT_TRUE(has(mask_of(state), ']'));
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(state.accept(']'));
  EXPECT_TRUE(state.can_end());
}

}  // namespace
}  // namespace megalith::grammars

// SPDX-License-Identifier: Apache-2.0
#include "adapters/prompt_marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/function_ref.h"
#include "text/tokenizer_fixture.h"

namespace megalith::adapters {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string fault(FunctionRef<void()> call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no fault";
}

/// Bytes, "ab", and the end token 257, of a model with 260 tokens.
class Marks : public ::testing::Test {
 protected:
  std::vector<int32_t> ids(std::string_view text, int64_t first_row = 0) const {
    std::vector<int32_t> ids = marks_.tokenizer().encode(text, false);
    marks_.expand(ids, first_row);
    return ids;
  }
  PromptMarks marks_{
      text::Tokenizer::parse(text::small_tokenizer({{"a", "b"}}).dump(), "t"), 260, {2, 1}};
};

TEST_F(Marks, BecomeTheirRowsAndCutTheText) {
  EXPECT_THAT(ids("x<|VIRTUAL_PROMPT_0|>ab<|VIRTUAL_PROMPT_1|>"),
              ElementsAre('x', 260, 261, 256, 262));
  EXPECT_THAT(ids("<|VIRTUAL_PROMPT_0|>a<|VIRTUAL_PROMPT_1|>b"),
              ElementsAre(260, 261, 'a', 262, 'b'));
  EXPECT_THAT(ids("<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>"), ElementsAre(260, 261, 262));
}

/// Those of a task stand behind those of the tasks before it.
TEST_F(Marks, BecomeTheRowsFromAnyOneOn) {
  EXPECT_THAT(ids("x<|VIRTUAL_PROMPT_0|>ab<|VIRTUAL_PROMPT_1|>", 2),
              ElementsAre('x', 262, 263, 256, 264));
}

TEST_F(Marks, AreLeftOutOfTexts) {
  const auto ids = marks_.tokenizer().encode("x<|VIRTUAL_PROMPT_0|>y", false);
  EXPECT_EQ(marks_.tokenizer().decode(ids), "xy");
}

TEST_F(Marks, FlagsOfRowsAreZero) {
  std::vector<int32_t> ids = {'x', 260, 'y', 262, 'z'};
  std::vector<uint8_t> flags = {1, 1, 0, 1, 1};
  marks_.expand(ids, 2, &flags);
  EXPECT_THAT(ids, ElementsAre('x', 262, 263, 'y', 264, 'z'));
  EXPECT_THAT(flags, ElementsAre(1, 0, 0, 0, 0, 1));
}

TEST_F(Marks, EachStandsOnceAndInOrder) {
  for (const char* const text : {"x", "x<|VIRTUAL_PROMPT_0|>"})
    EXPECT_THAT(fault([&] { ids(text); }), HasSubstr("the text has no <|VIRTUAL_PROMPT_")) << text;
  for (const char* const text : {"<|VIRTUAL_PROMPT_1|><|VIRTUAL_PROMPT_0|>",
                                 "<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>",
                                 "<|VIRTUAL_PROMPT_0|><|VIRTUAL_PROMPT_1|>x<|VIRTUAL_PROMPT_1|>"})
    EXPECT_THAT(fault([&] { ids(text); }), HasSubstr("that is not its next mark")) << text;
  EXPECT_THAT(fault([&] { ids("<|VIRTUAL_PROMPT_0|>x<|VIRTUAL_PROMPT_0|>"); }),
              HasSubstr("the text has a <|VIRTUAL_PROMPT_0|> that is not its next mark"));
  std::vector<int32_t> foreign = {260, 261, 262};
  EXPECT_THAT(fault([&] { marks_.expand(foreign); }), HasSubstr("a token 261 that the model"));
}

TEST_F(Marks, IdsOfAllRowsStandAsTextsWouldHaveThem) {
  const auto rows_of = [&](const std::vector<int32_t>& ids) {
    return fault([&] { marks_.check_rows(ids); });
  };
  EXPECT_EQ(rows_of(ids("x<|VIRTUAL_PROMPT_0|>ab<|VIRTUAL_PROMPT_1|>")), "no fault");
  EXPECT_EQ(rows_of({260, 261, 262}), "no fault");
  for (const std::vector<int32_t>& ids :
       std::vector<std::vector<int32_t>>{{},
                                         {'x'},
                                         {260, 261},
                                         {261, 262},
                                         {260, 'x', 261, 262},
                                         {261, 260, 262},
                                         {262, 260, 261},
                                         {260, 261, 262, 262},
                                         {260, 261, 262, 263},
                                         {260, 261, 260, 261, 262}})
    EXPECT_THAT(rows_of(ids), HasSubstr("those of the virtual tokens, 260 to 262")) << ids.size();
}

TEST(Splits, AreRunsOfAllRows) {
  EXPECT_THAT(parse_splits(splits_json({2, 1}), "f", 3), ElementsAre(2, 1));
  for (const char* const text :
       {"[2, 1]", R"({"virtual_token_splits": [2]})", R"({"virtual_token_splits": [3, 0]})",
        R"({"virtual_token_splits": [4, -1]})",
        R"({"virtual_token_splits": [18446744073709551615, 2, 2]})",
        R"({"virtual_token_splits": [1.5, 1.5]})", R"({"virtual_token_splits": []})",
        R"({"virtual_token_splits": 3})", "{}", R"({"virtual_token_splits": [2, 1], "more": 1})"})
    EXPECT_THAT(fault([&] { parse_splits(text, "f", 3); }),
                HasSubstr("f: must be {\"virtual_token_splits\": [...]}"))
        << text;
  EXPECT_THAT(fault([] { parse_splits("{", "f", 3); }), HasSubstr("f: "));
}

}  // namespace
}  // namespace megalith::adapters

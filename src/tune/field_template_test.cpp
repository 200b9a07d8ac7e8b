// SPDX-License-Identifier: Apache-2.0
#include "tune/field_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace megalith::tune {
namespace {

using Filled = std::pair<std::string, std::string>;
using ::testing::HasSubstr;

Filled filled(std::string_view text, const std::map<std::string, std::string>& values) {
  const auto made =
      FieldTemplate(text, "recipe: tune.template").fill([&](const std::string& field) {
        return values.at(field);
      });
  return {made.prompt, made.answer};
}
std::string fault(std::string_view text) {
  try {
    FieldTemplate(text, "recipe: tune.template");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(FieldTemplate, PutsFieldsWhereTheyStand) {
  EXPECT_EQ(filled("{input} {output}", {{"input", " a b "}, {"output", "c "}}),
            Filled("a b", " c"));
  EXPECT_EQ(filled(R"(Q: {q}\n\nA:  {a})", {{"q", "why?"}, {"a", "so"}}),
            Filled("Q: why?\n\nA:", "  so"));
  EXPECT_EQ(filled("{a}", {{"a", "x"}}), Filled("", "x"));
  EXPECT_EQ(filled(R"({q}\t\\n{q}{a})", {{"q", "x"}, {"a", "y"}}), Filled("x\t\\nx", "y"));
  // Nothing to learn is for the reader of lines to refuse.
  EXPECT_EQ(filled("{q} {a}", {{"q", "x"}, {"a", "  "}}).second, "");
}

TEST(FieldTemplate, EndsWithTheAnswer) {
  for (const char* text : {"", "a", "{a} b", "{a}."})
    EXPECT_THAT(fault(text), HasSubstr("does not end with"));
  for (const char* text : {"{", "{}", "{a b}{c}", "a } {b}", "{{a}}", "{a"})
    EXPECT_THAT(fault(text), HasSubstr("is a brace")) << text;
}

}  // namespace
}  // namespace megalith::tune

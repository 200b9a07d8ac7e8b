// SPDX-License-Identifier: Apache-2.0
// What Python's re and the harness's filters give.
#include "tasks/filters.h"

#include <gtest/gtest.h>

#include "tasks/built_in.h"

namespace megalith::tasks {
namespace {

Task gsm8k() { return find_tasks({"gsm8k"}, Profile::lm_eval).tasks[0]; }

TEST(Filters, ExtractTheStrictAndTheLastNumber) {
  const Task task = gsm8k();
  const TextFilter strict(task.filters[0], task.name), flexible(task.filters[1], task.name);
  const std::string text = "She has 3 apples, so $1,200.50 in all.\n#### 1,200 ";
  EXPECT_EQ(strict.apply(text), "1,200");
  EXPECT_EQ(strict.apply("#### -7.5."), "-7.5.");
  EXPECT_EQ(strict.apply("no number"), "[invalid]");
  EXPECT_EQ(flexible.apply(text), "1,200");
  EXPECT_EQ(flexible.apply("from 12 to 7"), "7");
  EXPECT_EQ(flexible.apply("none"), "[invalid]");
}

TEST(Filters, MatchIgnoresWhatTheTaskSays) {
  const Task task = gsm8k();
  const TextMatch match(task.metrics[0].match, task.name);
  EXPECT_TRUE(match.matches("$1,200.", "Some words\nand lines.\n#### 1200"));
  EXPECT_TRUE(match.matches("72", "#### 72\n") == false);  // a line end stays
  EXPECT_FALSE(match.matches("1200.5", "#### 1200"));
  EXPECT_TRUE(TextMatch({.ignore_case = true, .ignore_punctuation = true}, "x")
                  .matches("the \"Normans\"!", "The Normans"));
  EXPECT_TRUE(TextMatch({.ignore_numbers = true}, "x").matches("a1b", "ab22"));
}

TEST(Filters, ChangeTexts) {
  using Kind = FilterStep::Kind;
  const Filter filter{"f",
                      {{.kind = Kind::remove_whitespace},
                       {.kind = Kind::lowercase},
                       {.kind = Kind::map, .mapping = {{"yes", "1"}}, .default_value = "0"}}};
  const TextFilter made(filter, "x");
  EXPECT_EQ(made.apply(" YES\n"), "1");
  EXPECT_EQ(made.apply("maybe"), "0");
}

TEST(Filters, PatternsArePythons) {
  const Filter dollar{"f", {{.kind = FilterStep::Kind::regex, .pattern = "b$"}}};
  // The end of the text, or before the line end that ends it; no line end within.
  EXPECT_EQ(TextFilter(dollar, "x").apply("a b\n"), "b");
  EXPECT_EQ(TextFilter(dollar, "x").apply("b\nc"), "[invalid]");
  const Filter dots{"f", {{.kind = FilterStep::Kind::regex, .pattern = "(?s)a.c|(?i)XY"}}};
  EXPECT_EQ(TextFilter(dots, "x").apply("a\nc"), "a\nc");
  // re.findall("[0-9]*", "a12") is ["", "12", ""].
  Filter last{"f", {{.kind = FilterStep::Kind::regex, .pattern = "[0-9]*", .group_select = -1}}};
  EXPECT_EQ(TextFilter(last, "x").apply("a12"), "");
  last.steps[0].group_select = -2;
  EXPECT_EQ(TextFilter(last, "x").apply("a12"), "12");
  const Filter broken{"f", {{.kind = FilterStep::Kind::regex, .pattern = "("}}};
  EXPECT_THROW(TextFilter(broken, "x"), UserError);
}

}  // namespace
}  // namespace megalith::tasks

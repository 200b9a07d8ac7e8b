// SPDX-License-Identifier: Apache-2.0
#include "tune/task_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tune/rules_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Of a recipe with two tasks that have files of their own.
std::string fault_of_tasks(const std::function<void(config::Recipe&)>& change) {
  config::Recipe recipe;
  recipe.tune.model = "model";
  recipe.tune.method = config::TuneMethod::prompt;
  recipe.tune.tasks = {{.name = "squad", .data = {"a.jsonl"}},
                       {.name = "boolq-1.1", .data = {"b.jsonl"}, .template_text = "{q} {a}"}};
  change(recipe);
  return faults_of(recipe);
}

/// The files that lines of all tasks are in.
void in_common(config::Recipe& r) {
  r.tune.data = {"all.jsonl"};
  for (config::TuneTask& task : r.tune.tasks) task.data.clear();
}

TEST(TaskRules, FilesAreThoseOfTheTasksOrCommonOnes) {
  EXPECT_EQ(fault_of_tasks([](auto&) {}), "");
  EXPECT_EQ(fault_of_tasks(in_common), "");
  EXPECT_THAT(fault_of_tasks([](auto& r) { r.tune.data = {"all.jsonl"}; }),
              HasSubstr("tune.data and data of tune.tasks both name files"));
  EXPECT_THAT(fault_of_tasks([](auto& r) { r.tune.tasks[1].data.clear(); }),
              AllOf(HasSubstr("task \"boolq-1.1\" names no file of examples"),
                    Not(HasSubstr("squad")), Not(HasSubstr("tune.data names no file"))));
}

TEST(TaskRules, OneTasksFilesAreAValidation) {
  const auto validated = [](auto change) {
    return fault_of_tasks([=](config::Recipe& r) {
      r.train.validate_every = 5;
      change(r);
    });
  };
  EXPECT_EQ(validated([](auto& r) { r.tune.tasks[1].validation = {"c.jsonl"}; }), "");
  EXPECT_EQ(validated([](auto& r) { r.tune.validation = {"c.jsonl"}; }), "");
  EXPECT_THAT(validated([](auto&) {}), HasSubstr("train.validate_every needs tune.validation"));
  EXPECT_THAT(
      validated([](auto& r) { r.tune.tasks[1].validation = r.tune.validation = {"c.jsonl"}; }),
      HasSubstr("tune.validation and validation of tune.tasks both name files"));
  EXPECT_THAT(fault_of_tasks([](auto& r) { r.tune.tasks[0].validation = {"c.jsonl"}; }),
              HasSubstr("tune.validation has no effect with train.validate_every: 0"));
}

TEST(TaskRules, NamesAreThoseOfFolders) {
  for (const std::string& name :
       {std::string(), std::string(".."), std::string(".a"), std::string("a/b"), std::string("a b"),
        std::string("\xc3\xa9"), std::string(129, 'a')})
    EXPECT_THAT(fault_of_tasks([&](auto& r) { r.tune.tasks[0].name = name; }),
                AllOf(HasSubstr("is no name of a task"), HasSubstr("do not begin with '.'")))
        << name;
  EXPECT_THAT(fault_of_tasks([](auto& r) { r.tune.tasks[1].name = "squad"; }),
              HasSubstr("two tasks named \"squad\""));
}

TEST(TaskRules, EachBeginsAsItsTextOrTheCommonOne) {
  using config::PromptInit;
  const auto texts = [](PromptInit init, const char* common, const char* first,
                        const char* second) {
    return fault_of_tasks([=](config::Recipe& r) {
      r.tune.prompt_init = init;
      r.tune.prompt_text = common;
      r.tune.tasks[0].prompt_text = first;
      r.tune.tasks[1].prompt_text = second;
    });
  };
  EXPECT_EQ(texts(PromptInit::text, "", "a", "b"), "");
  EXPECT_EQ(texts(PromptInit::text, "c", "a", ""), "");
  EXPECT_EQ(texts(PromptInit::text, "c", "", ""), "");
  EXPECT_THAT(texts(PromptInit::text, "", "a", ""), HasSubstr("needs prompt_text in each"));
  EXPECT_THAT(texts(PromptInit::text, "c", "a", "b"),
              HasSubstr("tune.prompt_text has no effect beside prompt_text in each"));
  const auto unread = [](const char* key) {
    return HasSubstr(std::string(key) + " has no effect without tune.prompt_init: text");
  };
  const auto common = unread("tune.prompt_text"), own = unread("tune.tasks: prompt_text");
  EXPECT_THAT(texts(PromptInit::random, "c", "", ""), AllOf(common, Not(own)));
  EXPECT_THAT(texts(PromptInit::random, "", "a", ""), AllOf(own, Not(common)));
  EXPECT_THAT(texts(PromptInit::random, "c", "", "a"), AllOf(own, common));
  EXPECT_THAT(fault_of_tasks([](auto& r) {
                r.tune.method = config::TuneMethod::p_tuning;
                r.tune.tasks[0].prompt_text = "a";
              }),
              HasSubstr("prompt_text has no effect with tune.method: p_tuning"));
}

TEST(TaskRules, AreOfVirtualTokensAlone) {
  using enum config::TuneMethod;
  EXPECT_EQ(fault_of_tasks([](auto& r) { r.tune.method = p_tuning; }), "");
  for (const auto method : {full, lora, ia3, adapter})
    EXPECT_THAT(fault_of_tasks([=](auto& r) { r.tune.method = method; }),
                AllOf(HasSubstr("tune.tasks has no effect with tune.method: "),
                      Not(HasSubstr("tune.tasks.0")), Not(HasSubstr("classify"))));
  EXPECT_THAT(fault_of_tasks([](auto& r) { r.tune.objective = config::TuneObjective::dpo; }),
              HasSubstr("tune.tasks is not built with tune.objective: dpo"));
  EXPECT_THAT(fault_of_tasks([](auto& r) { r.tune.template_text = "{q} {a}"; }),
              HasSubstr("tune.template has no effect beside tune.tasks"));
  EXPECT_THAT(fault_of_tasks([](auto& r) { r.train.sample_every = 5; }),
              HasSubstr("train.sample_every: its prompts are of none of tune.tasks"));
  EXPECT_EQ(fault_of_tasks([](auto& r) { r.tune.virtual_tokens = 1 << 15; }), "");
  EXPECT_THAT(fault_of_tasks([](auto& r) { r.tune.virtual_tokens = (1 << 15) + 1; }),
              HasSubstr("tune.tasks have 65538 virtual tokens together, and may have 65536"));
}

/// Of a recipe without tasks.
std::string fault_of_splits(const std::function<void(config::Recipe&)>& change) {
  return fault_of_tasks([&](config::Recipe& r) {
    r.tune.tasks.clear();
    r.tune.data = {"a.jsonl"};
    r.tune.template_text = "<|VIRTUAL_PROMPT_0|>{q}<|VIRTUAL_PROMPT_1|> {a}";
    r.tune.virtual_tokens = 5;
    r.tune.splits = {3, 2};
    change(r);
  });
}

TEST(TaskRules, SplitsAreRowsOfMarksInTemplates) {
  EXPECT_EQ(fault_of_splits([](auto&) {}), "");
  EXPECT_EQ(fault_of_splits([](auto& r) { r.tune.method = config::TuneMethod::p_tuning; }), "");
  for (const auto& splits : std::vector<std::vector<double>>{{3, 3}, {5, 1}, {2.5, 2.5}})
    EXPECT_THAT(fault_of_splits([&](auto& r) { r.tune.splits = splits; }),
                HasSubstr("tune.virtual_token_splits must be whole numbers whose sum is 5"));
  for (const char* const text : {"", "chat.jinja"})
    EXPECT_THAT(fault_of_splits([&](auto& r) { r.tune.template_text = text; }),
                HasSubstr("tune.virtual_token_splits needs a template"));
  EXPECT_THAT(fault_of_tasks([](auto& r) { r.tune.splits = {20}; }),
              HasSubstr("tune.virtual_token_splits needs a template"));
  EXPECT_EQ(fault_of_tasks([](auto& r) {
              r.tune.splits = {20};
              r.tune.tasks[0].template_text = "{q} {a}";
            }),
            "");
  EXPECT_THAT(fault_of_splits([](auto& r) { r.tune.overlong = config::Overlong::truncate; }),
              HasSubstr("tune.overlong: truncate may cut virtual tokens off"));
  EXPECT_THAT(fault_of_splits([](auto& r) { r.tune.objective = config::TuneObjective::dpo; }),
              HasSubstr("tune.virtual_token_splits is not built with tune.objective: dpo"));
  EXPECT_THAT(fault_of_splits([](auto& r) { r.train.sample_every = 5; }),
              HasSubstr("read without the marks"));
  EXPECT_THAT(fault_of_splits([](auto& r) { r.tune.method = config::TuneMethod::lora; }),
              HasSubstr("tune.virtual_token_splits has no effect with tune.method: lora"));
}

}  // namespace
}  // namespace megalith::tune

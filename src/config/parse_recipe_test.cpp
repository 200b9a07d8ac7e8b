// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "config/recipe.h"

namespace megalith::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kLeast = "model: {vocab: 100}\ntrain: {steps: 10}\n";

Recipe parse(const std::string& text, std::vector<std::string> overrides = {}) {
  return parse_recipe(text, "r.yaml", overrides);
}

std::string error_of(const std::string& text, std::vector<std::string> overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line";
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

/// The message for a valid recipe with one override.
std::string error_of_set(const std::string& set) { return error_of(kLeast, {set}); }

TEST(ParseRecipe, TheLeastRecipeIsAllDefaultsResolved) {
  const Recipe r = parse(kLeast);
  EXPECT_EQ(r.model.layers, 12);
  EXPECT_EQ(r.model.kv_heads, 12);
  EXPECT_EQ(r.model.ffn, 3072);
  EXPECT_EQ(r.train.micro_batch, 8);
  EXPECT_EQ(r.parallel.tensor_shards, 4);
  EXPECT_EQ(r.numerics, Numerics::exact);
  EXPECT_EQ(r.optimizer.beta2, 0.95);
}

TEST(ParseRecipe, EveryKindOfValueIsRead) {
  const Recipe r = parse(R"(
run: {out: out/1, seed: 7, name: 2024, threads: 2}
model:
  kind: gpt
  hidden: 64
  heads: 8
  kv_heads: 2
  vocab: 1e3
  attention: materialised
  tied: false
  norm_eps: 1e-6
data:
  train: a/b
  validation: [c, "d"]
train:
  tokens: 2e6
  sample_prompts: ["one", two]
optimizer:
  schedule: wsd
  groups:
    - {match: "*.bias", lr_scale: 0.5, weight_decay: 0}
    - match: embedding*
numerics: fast
precision: {parameters: f16, compute: f16, loss_scale: 1024}
memory: {recompute: full}
parallel: {schedule: 1f1b}
checkpoint:
)");
  EXPECT_EQ(r.run.name, "2024");
  EXPECT_EQ(r.model.vocab, 1000);
  EXPECT_EQ(r.model.attention, Attention::materialised);
  EXPECT_EQ(r.model.tied, false);
  EXPECT_EQ(r.model.norm_eps, 1e-6);
  EXPECT_EQ(r.model.ffn, 256);
  ASSERT_EQ(r.data.train.size(), 1u);
  EXPECT_EQ(r.data.train[0].path, "a/b");
  EXPECT_EQ(r.data.train[0].weight, std::nullopt);
  ASSERT_EQ(r.data.validation.size(), 2u);
  EXPECT_EQ(r.data.validation[1].path, "d");
  EXPECT_EQ(r.train.tokens, 2000000);
  EXPECT_EQ(r.train.sample_prompts, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(r.optimizer.schedule, Schedule::wsd);
  ASSERT_EQ(r.optimizer.groups.size(), 2u);
  EXPECT_EQ(r.optimizer.groups[0].weight_decay, 0.0);
  EXPECT_FALSE(r.optimizer.groups[1].weight_decay.has_value());
  EXPECT_EQ(r.numerics, Numerics::fast);
  EXPECT_EQ(r.precision.parameters, Precision::f16);
  EXPECT_EQ(r.precision.fixed_scale(), 1024);
  EXPECT_EQ(Recipe().precision.fixed_scale(), std::nullopt);
  EXPECT_EQ(r.memory.recompute, Recompute::full);
  EXPECT_EQ(r.parallel.tensor_shards, 2);
}

TEST(ParseRecipe, CorporaHaveThreeForms) {
  for (const char* form :
       {"p", "[p]", "[{path: p}]", "{path: p, weight: null}", "[{path: p, weight: null}]"}) {
    const Recipe r = parse(kLeast + "data: {train: " + form + "}\n");
    ASSERT_EQ(r.data.train.size(), 1u) << form;
    EXPECT_EQ(r.data.train[0].path, "p");
    EXPECT_FALSE(r.data.train[0].weight.has_value());
  }
  EXPECT_EQ(parse(kLeast, {"data.train=[a, {path: b, weight: 3}]"}).data.train[1].weight, 3);
  EXPECT_THAT(error_of(kLeast + "data: {train: [[a]]}\n"),
              HasSubstr("data.train.0: must be a map of keys and values, not a list"));
  EXPECT_THAT(error_of(kLeast + "data: {train: [{path: a, weigth: 2}]}\n"),
              HasSubstr("data.train.0.weigth: unknown key; the nearest known key is "
                        "data.train.0.weight"));
  EXPECT_THAT(error_of(kLeast + "data: {train: }\n"), HasSubstr("data.train: has no value"));
  EXPECT_THAT(error_of_set("data.train=''"), HasSubstr("data.train.0.path: is empty"));
}

TEST(ParseRecipe, OverridesWinAndAreChecked) {
  const Recipe r = parse(kLeast, {"model.layers=2", "run.out=x/y", "optimizer.lr=1e-3",
                                  "checkpoint.async=false", "model.layers=3"});
  EXPECT_EQ(r.model.layers, 3);
  EXPECT_EQ(r.run.out, "x/y");
  EXPECT_EQ(r.optimizer.lr, 1e-3);
  EXPECT_FALSE(r.checkpoint.async);
  EXPECT_EQ(error_of_set("model.layers=x"),
            "--set model.layers=x: model.layers: must be an integer, not \"x\"");
  EXPECT_THAT(error_of_set("model.layer=2"),
              HasSubstr("unknown key; the nearest known key is model.layers"));
}

TEST(ParseRecipe, OverridesMustBeText) {
  EXPECT_THAT(error_of_set("run.name=\xff"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(error_of_set("model.l\x98yers=2"), HasSubstr("not valid UTF-8"));
}

TEST(ParseRecipe, WrongTypesSayWhatIsWantedAndWhere) {
  EXPECT_EQ(error_of(kLeast + "optimizer:\n  lr: fast\n"),
            "r.yaml:4:7: optimizer.lr: must be a finite number, not \"fast\"");
  for (const auto& [set, message] : std::vector<std::pair<std::string, std::string>>{
           {"model.layers=1.5", "must be an integer"},
           {"model.layers=1e300", "must be an integer"},
           {"model.layers=99999999999999999999", "must be an integer"},
           {"model.layers=0x10", "must be an integer"},
           {"model.layers='3'", "must be an integer, not \"3\" in quotes"},
           {"model.layers=[3]", "must be an integer, not a list"},
           {"model.layers=null", "has no value; give an integer"},
           {"optimizer.lr=nan", "must be a finite number"},
           {"optimizer.lr=inf", "must be a finite number"},
           {"optimizer.lr=1e999", "must be a finite number"},
           {"optimizer.lr=1e-3x", "must be a finite number"},
           {"model.tied=yes", "must be true or false"},
           {"model.tied=1", "must be true or false"},
           {"run.out=[a]", "must be a text, not a list"},
           {"run.out={a: b}", "must be a text, not a map"},
           {"model=3", "must be a map of keys and values, not \"3\""},
           {"train.sample_prompts={a: b}", "must be a list of texts"},
           {"train.sample_prompts=[[a]]", "must be a list of texts"},
           {"model.kind=llama", "must be gpt, not \"llama\""},
           {"numerics=exakt", "must be one of exact, fast, not \"exakt\"; the nearest is exact"}})
    EXPECT_THAT(error_of_set(set), HasSubstr(message)) << set;
}

TEST(ParseRecipe, ValuesOutOfRangeNameTheRange) {
  for (const auto& [set, message] : std::vector<std::pair<std::string, std::string>>{
           {"model.layers=0", "must be from 1 to 100000, not 0"},
           {"model.hidden=-8", "must be from 1"},
           {"model.dropout=1", "must be from 0 to below 1, not 1"},
           {"optimizer.beta1=1.0", "must be from 0 to below 1"},
           {"optimizer.lr=-1", "must be from 0"},
           {"optimizer.eps=0", "must be above 0 to 1"},
           {"optimizer.clip=-1", "must be from 0"},
           {"train.steps=-2", "must be from -1"},
           {"train.global_batch=0", "must be from 1"},
           {"checkpoint.keep=0", "must be from 1"},
           {"parallel.zero=4", "must be from 0 to 3"},
           {"run.seed=-1", "must be from 0"},
           {"data.train={path: a, weight: 0}", "must be above 0"}})
    EXPECT_THAT(error_of_set(set), HasSubstr(message)) << set;
}

/// A value out of its range keeps no rule from speaking that does not need it.
TEST(ParseRecipe, RulesSpeakBesideValuesOutOfRange) {
  EXPECT_THAT(error_of(kLeast, {"parallel.pipeline=0", "model.heads=7"}),
              AllOf(HasSubstr("parallel.pipeline: must be"),
                    HasSubstr("model.heads 7 must divide model.hidden 768")));
}

/// tensor_shards is derived from the heads, model.ffn from the width.
TEST(ParseRecipe, NothingAfterTheSignTakesTheKeyOut) {
  const std::string text = kLeast + "optimizer: {lr: 1e-2, clip: 3}\nrun: {name: a}\n";
  const Recipe r = parse(text, {"optimizer.lr=", "run.name=", "memory.recompute="});
  EXPECT_EQ(r.optimizer.lr, Recipe{}.optimizer.lr);
  EXPECT_EQ(r.optimizer.clip, 3);
  EXPECT_EQ(r.run.name, "");
  EXPECT_EQ(parse(text, {"optimizer="}).optimizer.clip, Recipe{}.optimizer.clip);
  EXPECT_EQ(parse(text, {"optimizer=", "optimizer.lr=2"}).optimizer.lr, 2);
  EXPECT_EQ(parse(text, {"optimizer.lr=", "optimizer.lr=2"}).optimizer.lr, 2);
  EXPECT_TRUE(parse(kLeast + "data: {train: x}\n", {"data.train="}).data.train.empty());
  // What is taken out must be a key all the same, and what a recipe needs stays needed.
  EXPECT_THAT(error_of(text, {"optimizer.rl="}), HasSubstr("nearest known key is optimizer.lr"));
  EXPECT_THAT(error_of(text, {"train.steps="}), HasSubstr("give exactly one of train.steps"));
  EXPECT_THAT(error_of(kLeast + "data: {train: [x, y]}\n", {"data.train.1="}),
              HasSubstr("--set data.train.1=: data.train.1: an item of a list stays"));
  // A text that is empty is quoted.
  EXPECT_EQ(parse(text, {"run.name=''"}).run.name, "");
}

TEST(ParseRecipe, ALengthOfTheCommandLineReplacesTheFiles) {
  for (const char* length : {"steps", "tokens", "epochs", "hours"}) {
    const std::string set = fmt::format("train.{}=7", length);
    const Recipe r = parse(kLeast, {set, "optimizer.schedule=constant"});
    const std::map<std::string, double> given{{"steps", static_cast<double>(r.train.steps)},
                                              {"tokens", static_cast<double>(r.train.tokens)},
                                              {"epochs", r.train.epochs},
                                              {"hours", r.train.hours}};
    for (const auto& [key, value] : given) EXPECT_EQ(value, key == length ? 7 : -1) << set << key;
  }
  // Two of the command line are two, and a number below 0 is none.
  EXPECT_THAT(error_of(kLeast, {"train.steps=5", "train.tokens=5"}), HasSubstr("give exactly one"));
  EXPECT_EQ(parse(kLeast, {"train.epochs=-1"}).train.steps, 10);
  EXPECT_EQ(parse(kLeast, {"train.steps=-1", "train.tokens=5"}).train.tokens, 5);
  EXPECT_THAT(error_of("model: {vocab: 9}\ntrain: {steps: 1, epochs: 1}\n"),
              HasSubstr("give exactly one"));
}

TEST(ParseRecipe, FaultsNameTheOptionThatWasWritten) {
  try {
    parse_recipe(kLeast, "r.yaml", {{"model.layers=x", "--beside"}, {"y", "--set"}});
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "--beside model.layers=x: model.layers: must be an integer, not \"x\"; "
                 "--set y: write it as key.path=value");
  }
}

TEST(ParseRecipe, RulesAreSilentOnWhatFollowsFromAFault) {
  EXPECT_THAT(error_of(kLeast, {"model.heads=0", "model.ffn=1001"}),
              Not(HasSubstr("tensor_shards")));
  EXPECT_THAT(error_of(kLeast, {"model.hidden=0", "parallel.tensor_shards=7"}),
              Not(HasSubstr("model.ffn")));
  EXPECT_THAT(error_of(kLeast, {"model.kv_heads=-1", "model.context=18", "parallel.tensor=2",
                                "parallel.sequence=true"}),
              Not(HasSubstr("parallel.sequence")));
}

TEST(ParseRecipe, AllFaultsAreReportedAtOnceInOrder) {
  const std::string text = error_of(
      "model:\n  layres: 2\n  hidden: x\n  heads: 5\n  vocab: 10\ntrain:\n  steps: 3\n"
      "  global_batch: 7\n  micro_batch: 2\noptimizer:\n  lr: -1\nmodle: {}\nnumerics: exact\n"
      "numerics: fast\n",
      {"model.dropout=2", "run.see=1"});
  const std::vector<std::string> expected = {
      "r.yaml:2:3: model.layres: unknown key; the nearest known key is model.layers",
      "r.yaml:3:11: model.hidden: must be an integer, not \"x\"",
      "r.yaml:8:17: train.global_batch: train.global_batch 7 must be a multiple of",
      "r.yaml:11:7: optimizer.lr: must be from 0 to 1000, not -1",
      "r.yaml:12:1: modle: unknown key; the nearest known key is model",
      "r.yaml:14:1: numerics: is given twice",
      "--set model.dropout=2: model.dropout: must be from 0 to below 1, not 2",
      "--set run.see=1: run.see: unknown key; the nearest known key is run.seed"};
  size_t at = 0;
  for (const std::string& part : expected) {
    const size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\nin\n" << text;
    at = found;
  }
  // A rule that needs a faulty field says nothing: heads 5 against the default of hidden.
  EXPECT_THAT(text, Not(HasSubstr("must divide")));
}

TEST(ParseRecipe, UnknownKeysFindTheirSection) {
  EXPECT_THAT(error_of(kLeast + "hidden: 3\n"), HasSubstr("nearest known key is model.hidden"));
  EXPECT_THAT(error_of_set("train.lr=1"), HasSubstr("nearest known key is optimizer.lr"));
  EXPECT_THAT(error_of_set("modle.layers=1"), HasSubstr("nearest known key is model"));
}

TEST(ParseRecipe, TextsThatAreNoMapAreRefused) {
  EXPECT_THAT(error_of("- a\n"), HasSubstr("a recipe is a map of sections, not a list"));
  EXPECT_THAT(error_of("hello\n"), HasSubstr("not \"hello\""));
  EXPECT_THAT(error_of(""), HasSubstr("give exactly one of train.steps"));
  EXPECT_THAT(error_of("---\n"), HasSubstr("give exactly one of train.steps"));
}

TEST(ParseRecipe, AFileOfNonsenseIsAnsweredInBounds) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const std::string error = error_of(text);
  EXPECT_LT(error.size(), 20000u);
  EXPECT_THAT(error, HasSubstr("; and 19902 more"));  // 20000 keys, no length, no vocabulary
}

TEST(ParseRecipe, LoadsFilesAndNamesThemInMessages) {
  std::string folder = testing::TempDir() + "parse_recipe_test_XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::filesystem::path path = std::filesystem::path(folder) / "recipe.yaml";
  write_file_durable(path, kLeast);
  EXPECT_EQ(load_recipe(path).model.vocab, 100);
  write_file_durable(path, kLeast + "x: 1\n");
  try {
    load_recipe(path);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string() + ":3:1: x: unknown key"));
  }
  std::filesystem::remove(path);
  EXPECT_THROW(load_recipe(path), UserError);
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace megalith::config

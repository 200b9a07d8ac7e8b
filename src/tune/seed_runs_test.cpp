// SPDX-License-Identifier: Apache-2.0
#include "tune/seed_runs.h"

#include <gmock/gmock.h>

#include <cmath>

#include "report/metrics.h"
#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SeedRuns, HaveARecipeEach) {
  config::Recipe recipe;
  recipe.run.out = "runs/rte";
  recipe.run.seed = 7;
  EXPECT_EQ(recipes_of_seeds(recipe).at(0).run.out, "runs/rte");
  recipe.tune.seeds = 3;
  const auto recipes = recipes_of_seeds(recipe);
  ASSERT_EQ(recipes.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(recipes[i].run.seed, 7 + static_cast<int64_t>(i));
    EXPECT_EQ(recipes[i].run.out, fmt::format("runs/rte/seed-{}", 7 + i));
    // Its own recipe is that of one run.
    EXPECT_EQ(recipes[i].tune.seeds, 1);
  }
}

class SeedFiles : public FileTest {
 protected:
  std::filesystem::path log(std::initializer_list<double> losses) const {
    std::string text;
    int64_t step = 0;
    for (const double loss : losses) {
      report::StepMetrics line;
      line.step = ++step;
      text += line.to_json_line();
      line.step = ++step;
      line.validation_loss = loss;
      line.validation_scores = {{"accuracy", loss / 8}};
      line.validation_task_losses = {{"squad", loss / 2}};
      text += line.to_json_line();
    }
    return std::filesystem::path(put("metrics.jsonl", text)).parent_path();
  }
};

TEST_F(SeedFiles, TheLastValidationCountsOrThatOfAStep) {
  const auto folder = log({4, 2, 1, 3});
  const SeedRun last = read_seed_run(5, folder, std::nullopt);
  const SeedRun best = read_seed_run(5, folder, 4);  // whatever others say
  EXPECT_EQ(last.seed, 5);
  EXPECT_EQ(last.step, 8);
  EXPECT_EQ(last.loss, 3);
  EXPECT_EQ(best.step, 4);
  EXPECT_EQ(best.loss, 2);
  EXPECT_THAT(best.scores, ElementsAre(std::pair<std::string, double>("accuracy", 0.25)));
  EXPECT_THAT(best.task_losses, ElementsAre(std::pair<std::string, double>("squad", 1)));
  EXPECT_THAT([&] { read_seed_run(5, folder, 3); },  // a step without one
              ::testing::ThrowsMessage<IntegrityError>(HasSubstr("no validation of step 3")));
  EXPECT_THROW(read_seed_run(5, log({}), std::nullopt), IntegrityError);
}

SeedRun run_of(int64_t seed, double loss, metrics::Scores scores = {}) {
  return {.seed = seed,
          .result = fmt::format("seed-{}", seed),
          .step = 10,
          .loss = loss,
          .scores = std::move(scores)};
}

/// They are compared, and choose no best run.
TEST(SeedRuns, LossesOfTasksStandBesideThatOfAll) {
  std::vector<SeedRun> runs{run_of(1, 0.5), run_of(2, 0.25)};
  runs[0].task_losses = {{"squad", 0.25}, {"boolq", 0.75}};
  runs[1].task_losses = {{"squad", 0.125}, {"boolq", 0.375}};
  const auto json = comparison_of(runs, config::BestBy::loss);
  EXPECT_EQ(json["seeds"][0]["validation_loss/boolq"], 0.75);
  EXPECT_EQ(json["minimum"]["validation_loss/squad"], 0.125);
  EXPECT_EQ(json["best"]["seed"], 2);
  EXPECT_EQ(json["best"]["by"], "validation_loss");
}

TEST(SeedRuns, MedianMinimumAndMaximum) {
  const std::vector<SeedRun> runs{run_of(1, 0.5, {{"accuracy", 0.75}, {"f1", 0.5}}),
                                  run_of(2, 0.25, {{"accuracy", 0.5}, {"f1", 0.75}}),
                                  run_of(3, 0.375, {{"accuracy", 0.625}, {"f1", 1}})};
  const auto json = comparison_of(runs, config::BestBy::loss);
  EXPECT_EQ(json["median"]["validation_loss"], 0.375);
  EXPECT_EQ(json["median"]["accuracy"], 0.625);
  EXPECT_EQ(json["minimum"]["accuracy"], 0.5);
  EXPECT_EQ(json["maximum"]["f1"], 1);
  EXPECT_EQ(json["seeds"][1]["f1"], 0.75);
  EXPECT_EQ(json["seeds"][1]["step"], 10);
  // Of an even number the mean of the two in the middle.
  EXPECT_EQ(comparison_of(std::span(runs).first(2), config::BestBy::loss)["median"]["accuracy"],
            0.625);
  const std::string table = table_of(json);
  EXPECT_THAT(table, HasSubstr("seed     step  validation_loss  accuracy      f1\n"));
  EXPECT_THAT(table, HasSubstr("2          10           0.2500    0.5000  0.7500\n"));
  EXPECT_THAT(table, HasSubstr("median                  0.3750    0.6250  0.7500\n"));
  EXPECT_THAT(table, HasSubstr("the best by accuracy is seed 1: seed-1\n"));
}

/// Of several tasks each has an adapter, and no folder is that of all.
TEST(SeedRuns, TasksHaveAFolderEach) {
  std::vector<SeedRun> runs{run_of(1, 2), run_of(2, 1)};
  for (SeedRun& run : runs)
    run.adapters = {{"squad", run.result + "/squad"}, {"boolq", run.result + "/boolq"}};
  const auto json = comparison_of(runs, config::BestBy::loss);
  EXPECT_EQ(json["seeds"][0].dump(),
            R"({"seed":1,"result":"seed-1","adapters":{"squad":"seed-1/squad",)"
            R"("boolq":"seed-1/boolq"},"step":10,"validation_loss":2.0})");
  EXPECT_EQ(json["best"]["adapters"], json["seeds"][1]["adapters"]);
  EXPECT_THAT(table_of(json),
              HasSubstr("the best by validation_loss is seed 2: seed-2/squad, seed-2/boolq\n"));
}

TEST(SeedRuns, TheBestHasTheHighestScoreOrTheLowestLoss) {
  const auto best = [](std::initializer_list<SeedRun> runs,
                       config::BestBy by = config::BestBy::loss) {
    return comparison_of(std::vector<SeedRun>(runs), by)["best"]["seed"].get<int64_t>();
  };
  EXPECT_EQ(best({run_of(1, 3), run_of(2, 2), run_of(3, 2)}), 2);
  EXPECT_EQ(best({run_of(1, 1, {{"accuracy", 0.5}}), run_of(2, 2, {{"accuracy", 0.75}})}), 2);
  EXPECT_EQ(best({run_of(1, 2, {{"accuracy", 0.5}}), run_of(2, 1, {{"accuracy", 0.5}})}), 2);
  const SeedRun one = run_of(1, 1, {{"exact_match", 50}, {"f1", 60}});
  const SeedRun two = run_of(2, 2, {{"exact_match", 40}, {"f1", 70}});
  EXPECT_EQ(best({one, two}), 1);
  EXPECT_EQ(best({one, two}, config::BestBy::f1), 2);
  EXPECT_EQ(comparison_of(std::vector{one, two}, config::BestBy::f1)["best"]["by"], "f1");
}

/// One that finished before there were scores, or losses of tasks.
TEST(SeedRuns, AreComparedByTheNumbersThatAllHave) {
  std::vector<SeedRun> runs{run_of(1, 2, {{"exact_match", 50}, {"f1", 60}}), run_of(2, 3),
                            run_of(3, 1, {{"f1", 70}, {"exact_match", 40}})};
  runs[0].task_losses = runs[2].task_losses = {{"squad", 0.25}};
  const auto all = comparison_of(runs, config::BestBy::loss);
  EXPECT_EQ(all["median"].dump(), R"({"validation_loss":2.0})");
  EXPECT_EQ(all["seeds"][0].dump(),
            R"({"seed":1,"result":"seed-1","step":10,"validation_loss":2.0})");
  EXPECT_EQ(all["best"]["seed"], 3);
  EXPECT_EQ(all["best"]["by"], "validation_loss");
  EXPECT_THAT(table_of(all), HasSubstr("seed     step  validation_loss\n"));
  EXPECT_THAT([&] { comparison_of(runs, config::BestBy::f1); },
              ::testing::ThrowsMessage<UserError>(::testing::AllOf(
                  HasSubstr("compared by f1, and the validation of seed 2 has none"),
                  HasSubstr("move that seed's folder away"))));
  // In another order they are the same by name.
  runs.erase(runs.begin() + 1);
  const auto two = comparison_of(runs, config::BestBy::f1);
  EXPECT_EQ(two["maximum"]["f1"], 70);
  EXPECT_EQ(two["maximum"]["exact_match"], 50);
  EXPECT_EQ(two["minimum"]["validation_loss/squad"], 0.25);
  EXPECT_EQ(two["best"]["seed"], 3);
}

TEST(SeedRuns, WhatIsNoNumberIsBelowAllOthers) {
  const std::vector<SeedRun> runs{run_of(1, 1, {{"pearson", std::nan("")}}),
                                  run_of(2, 2, {{"pearson", -0.5}}),
                                  run_of(3, 3, {{"pearson", 0.5}})};
  const auto json = comparison_of(runs, config::BestBy::loss);
  EXPECT_TRUE(json["minimum"]["pearson"].is_null());
  EXPECT_EQ(json["median"]["pearson"], -0.5);
  EXPECT_EQ(json["best"]["seed"], 3);
  EXPECT_THAT(table_of(json), HasSubstr(" -\n"));
}

}  // namespace
}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
// The line is compared as text: its keys, their order and the spelling of numbers are a promise.
#include "report/metrics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/test_folder.h"

namespace megalith::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Metrics, LineHasThePromisedKeysInOrder) {
  StepMetrics metrics = some_metrics(3);
  EXPECT_EQ(metrics.to_json_line(),
            "{\"step\":3,\"tokens\":3072,\"samples\":24,\"loss\":10.5,\"loss_hex\":\"0x1.5p+3\","
            "\"lr\":0.25,\"grad_norm\":0.75,\"grad_norm_hex\":\"0x1.8p-1\",\"step_seconds\":0.5,"
            "\"tokens_per_second\":2048.0,\"mfu\":0.125,\"memory_bytes\":1048576}\n");
  metrics.validation_loss = 2;
  EXPECT_EQ(metrics.validation_token_loss(), 2);
  EXPECT_TRUE(metrics.to_json_line().ends_with(",\"validation_loss\":2.0}\n"));
  metrics.pair_loss = 0.5;
  metrics.validation_pair_loss = 0.25;
  EXPECT_TRUE(metrics.to_json_line().ends_with(
      ",\"pair_loss\":0.5,\"validation_loss\":2.0,\"validation_pair_loss\":0.25}\n"));
  metrics.loss_scale = 65536;
  metrics.overflowed_steps = 2;
  EXPECT_TRUE(
      metrics.to_json_line().ends_with(",\"loss_scale\":65536.0,\"overflowed_steps\":2.0}\n"));
  const StepMetrics back = StepMetrics::parse(metrics.to_json_line());
  EXPECT_EQ(back.loss_scale, 65536);
  EXPECT_EQ(back.overflowed_steps, 2);
  EXPECT_EQ(back.token_loss(), 10);
  EXPECT_EQ(back.validation_token_loss(), 1.75);
}

TEST(Metrics, OfAnswersThatAreComparedALineHasTheNamesThatTrlGives) {
  StepMetrics metrics = some_metrics(1);
  metrics.compared = {0.5, -0.25, 0.75, 1, -20, -30};
  EXPECT_TRUE(metrics.to_json_line().ends_with(
      ",\"rewards/chosen\":0.5,\"rewards/rejected\":-0.25,\"rewards/margins\":0.75,"
      "\"rewards/accuracies\":1.0,\"logps/chosen\":-20.0,\"logps/rejected\":-30.0}\n"));
  metrics.validation_compared = metrics.compared;
  const std::string line = metrics.to_json_line();
  EXPECT_NE(line.find("\"validation_rewards/accuracies\":1.0"), std::string::npos);
  const StepMetrics back = StepMetrics::parse(line);
  EXPECT_EQ(back.compared, metrics.compared);
  EXPECT_EQ(back.validation_compared, metrics.validation_compared);
  EXPECT_FALSE(StepMetrics::parse(some_metrics(1).to_json_line()).compared);
  const size_t last = line.find(",\"logps/rejected\"");
  EXPECT_THROW(StepMetrics::parse(line.substr(0, last) + "}"), IntegrityError);
}

TEST(Metrics, ScoresOfAValidationStandByName) {
  StepMetrics metrics = some_metrics(3);
  metrics.validation_loss = 2;
  metrics.validation_scores = {{"pearson", 0.5}, {"spearmanr", kNan}};
  EXPECT_TRUE(metrics.to_json_line().ends_with(
      ",\"validation_loss\":2.0,\"validation_scores\":{\"pearson\":0.5,\"spearmanr\":null}}\n"));
  const StepMetrics back = StepMetrics::parse(metrics.to_json_line());
  ASSERT_EQ(back.validation_scores.size(), 2u);
  EXPECT_EQ(back.validation_scores[0], metrics.validation_scores[0]);
  EXPECT_TRUE(std::isnan(back.validation_scores[1].second));
  const std::string line = some_metrics(3).to_json_line();
  const auto with = [&](const char* scores) {
    return line.substr(0, line.size() - 2) + ",\"validation_scores\":" + scores + "}";
  };
  EXPECT_EQ(StepMetrics::parse(with("{}")).validation_scores.size(), 0u);
  for (const char* const damage : {"1", "[0.5]", "{\"f1\":\"a\"}"})
    EXPECT_THROW(StepMetrics::parse(with(damage)), IntegrityError) << damage;
}

TEST(Metrics, LossesOfTasksStandByName) {
  StepMetrics metrics = some_metrics(3);
  metrics.validation_loss = 2;
  metrics.validation_task_losses = {{"squad", 0.5}, {"boolq", kInfinity}};
  const std::string line = metrics.to_json_line();
  EXPECT_TRUE(line.ends_with(
      ",\"validation_loss\":2.0,\"validation_task_losses\":{\"squad\":0.5,\"boolq\":null}}\n"));
  const StepMetrics back = StepMetrics::parse(line);
  ASSERT_EQ(back.validation_task_losses.size(), 2u);
  EXPECT_EQ(back.validation_task_losses[0], metrics.validation_task_losses[0]);
  EXPECT_TRUE(std::isnan(back.validation_task_losses[1].second));
  EXPECT_TRUE(back.validation_scores.empty());
  std::string damaged = line;
  damaged.replace(damaged.find("{\"squad\""), std::string::npos, "[0.5]}");
  EXPECT_THROW(StepMetrics::parse(damaged), IntegrityError);
}

/// As long as those of some thousand tasks.
TEST(ReadMetrics, ALineMayTellOfManyTasks) {
  const TestFolder folder;
  StepMetrics metrics = some_metrics(1);
  for (int task = 0; task < 1200; ++task)
    metrics.validation_task_losses.emplace_back(std::to_string(task) + std::string(1000, 'x'), 0.1);
  MetricsLog(folder / "metrics.jsonl").append(metrics);
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl").at(0).validation_task_losses,
            metrics.validation_task_losses);
}

TEST(Metrics, ParsingGivesBackEveryBit) {
  StepMetrics metrics = some_metrics(7);
  metrics.loss = std::nextafter(1.0 / 3, 1);
  metrics.grad_norm = 5e-324;
  metrics.lr = 0.1 + 0.2;
  metrics.tokens = INT64_MAX;
  metrics.validation_loss = 1e308;
  const StepMetrics back = StepMetrics::parse(metrics.to_json_line());
  EXPECT_EQ(back.to_json_line(), metrics.to_json_line());
  EXPECT_EQ(std::bit_cast<uint64_t>(back.loss), std::bit_cast<uint64_t>(metrics.loss));
  EXPECT_EQ(back.grad_norm, 5e-324);
  EXPECT_EQ(back.lr, 0.1 + 0.2);
  EXPECT_EQ(back.tokens, INT64_MAX);
  EXPECT_EQ(back.validation_loss, 1e308);
}

TEST(Metrics, NumbersThatAreNotFiniteAreValidJson) {
  StepMetrics metrics = some_metrics(1);
  metrics.loss = kNan;
  metrics.grad_norm = kInfinity;
  metrics.mfu = kNan;
  metrics.validation_loss = kInfinity;
  const auto json = nlohmann::json::parse(metrics.to_json_line());
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_EQ(json.at("loss_hex"), "nan");
  EXPECT_TRUE(json.at("grad_norm").is_null());
  EXPECT_EQ(json.at("grad_norm_hex"), "inf");
  EXPECT_TRUE(json.at("validation_loss").is_null());
  const StepMetrics back = StepMetrics::parse(metrics.to_json_line());
  EXPECT_TRUE(std::isnan(back.loss));
  EXPECT_EQ(back.grad_norm, kInfinity);
  EXPECT_TRUE(std::isnan(back.mfu));
  EXPECT_TRUE(std::isnan(back.validation_loss.value()));
}

TEST(Metrics, DamagedLinesAreRefused) {
  const std::string good = some_metrics(1).to_json_line();
  auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    const size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return line.replace(at, from.size(), to);
  };
  EXPECT_NO_THROW(StepMetrics::parse(with("\"step\"", "\"later_key\":[1],\"step\"")));
  for (const std::string& line :
       {std::string(), std::string("[]"), good.substr(0, good.size() - 2), with("\"step\":1,", ""),
        with("\"step\":1", "\"step\":1.5"),
        with("\"tokens\":1024", "\"tokens\":18446744073709551615"),
        with("\"lr\":0.25", "\"lr\":\"0.25\""), with("0x1.5p+3", "10.5"),
        with("\"loss\":10.5", "\"loss\":10.25"), with("\"loss\":10.5", "\"loss\":null")}) {
    EXPECT_THROW(StepMetrics::parse(line), IntegrityError) << line;
  }
}

TEST(MetricsLog, ResumeCutsBackToThePositionAndKeepsTheLinesBeforeIt) {
  const TestFolder folder;
  const auto path = folder / "metrics.jsonl";
  int64_t position = 0;
  {
    MetricsLog log(path);
    log.append(some_metrics(1));
    log.append(some_metrics(2));
    log.sync();
    position = log.position();
    log.append(some_metrics(3));
  }
  const std::string kept = read_file(path).substr(0, static_cast<size_t>(position));
  {
    File(path, File::Mode::append).write("{\"step\":4,\"tok");
    MetricsLog log(path, position);
    EXPECT_EQ(read_file(path), kept);
    log.append(some_metrics(3));
  }
  EXPECT_EQ(read_file(path), kept + some_metrics(3).to_json_line());
  const std::vector<StepMetrics> all = read_metrics(path);
  ASSERT_EQ(all.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(all[i].step, static_cast<int64_t>(i) + 1);
}

TEST(ReadMetrics, PassesOverATornLastLineOnly) {
  const TestFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string one = some_metrics(1).to_json_line();
  const std::string two = one + some_metrics(2).to_json_line();
  for (size_t size = 0; size <= two.size(); ++size) {
    folder.put("metrics.jsonl", two.substr(0, size));
    const std::string whole = size == two.size() ? two : size >= one.size() ? one : "";
    ASSERT_EQ(read_metrics(path).size(), whole == two ? 2u : whole == one ? 1u : 0u) << size;
    const MetricsLog log(path, end_of_whole_lines(path));
    ASSERT_EQ(read_file(path), whole) << size;
  }
}

TEST(ReadMetrics, NamesTheLineThatIsDamagedOrOutOfOrder) {
  const TestFolder folder;
  const auto path = folder / "metrics.jsonl";
  auto message = [&](const std::string& content) -> std::string {
    folder.put("metrics.jsonl", content);
    try {
      read_metrics(path);
    } catch (const IntegrityError& error) {
      return error.what();
    }
    return "";
  };
  const std::string one = some_metrics(1).to_json_line();
  EXPECT_EQ(message(one + "[]\n"), path.string() + ":2: not a JSON object");
  EXPECT_EQ(message(one + "{\n").find(path.string() + ":2: is not JSON"), 0u);
  EXPECT_EQ(message(one + std::string(100000, '[') + "\n").find(path.string() + ":2: is nested"),
            0u);
  EXPECT_EQ(message(one + one), path.string() + ":2: step 1 after step 1");
  EXPECT_EQ(message(one + some_metrics(2).to_json_line()), "");
  EXPECT_THROW(read_metrics(folder / "absent"), UserError);
}

}  // namespace
}  // namespace megalith::report

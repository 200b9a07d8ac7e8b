// SPDX-License-Identifier: Apache-2.0
#include "evaluate/judgement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tasks/built_in.h"
#include "tasks/document_fixture.h"

namespace megalith::evaluate {
namespace {

using tasks::Metric;
using ::testing::HasSubstr;

std::vector<tasks::MetricUse> uses(std::initializer_list<Metric> metrics) {
  std::vector<tasks::MetricUse> list;
  for (const Metric metric : metrics) list.push_back(tasks::default_use(metric));
  return list;
}

/// A question whose choices have 2, 4 and 2 characters, the last of 4 bytes, and 1, 2, 1 tokens.
struct ChoiceCase {
  tasks::Task task;
  tasks::AskedDocument asked;
  Response response;
  tasks::Document document = tasks::document_of("{}");
  ChoiceCase(std::initializer_list<Metric> metrics, std::vector<double> scores, int64_t right) {
    task.name = "x";
    task.choices = tasks::Part(std::vector<std::string>{"ab", "abcd", "\xC3\xA9\xC3\xA9"});
    task.metrics = uses(metrics);
    asked.question.choices = *task.choices.list();
    asked.question.target = chat::Value::integer(right);
    for (const double score : scores) response.scores.push_back({score, score > -1});
    response.tokens = {1, 2, 1};
  }
  std::vector<double> values() const {
    std::vector<double> found;
    for (const MetricValue& value :
         Judge(task, asked.question).judge(document, asked, response, 0).values)
      found.push_back(value.value);
    return found;
  }
};

TEST(Judge, ComparesChoicesByTheirLengths) {
  // acc: the first is best; by characters -2, -1.25, -4; by bytes -2, -1.25, -2.
  const ChoiceCase by({Metric::acc, Metric::acc_norm, Metric::acc_bytes}, {-4, -5, -8}, 1);
  EXPECT_EQ(by.values(), (std::vector<double>{0, 1, 1}));
  ChoiceCase tokens({Metric::acc_norm}, {-4, -7, -8}, 1);
  tokens.task.norm = tasks::Norm::tokens;  // -4, -3.5, -8
  EXPECT_EQ(tokens.values(), (std::vector<double>{1}));
  // The first of equals.
  EXPECT_EQ(ChoiceCase({Metric::acc}, {-4, -4, -4}, 0).values(), (std::vector<double>{1}));
  EXPECT_EQ(ChoiceCase({Metric::acc}, {-4, -4, -4}, 1).values(), (std::vector<double>{0}));
}

TEST(Judge, ComparesWhatTheContextAdds) {
  const ChoiceCase gain({Metric::acc_mutual_info, Metric::acc}, {-4, -5, -8, -1, -4, -7}, 1);
  EXPECT_EQ(gain.values(), (std::vector<double>{1, 0}));  // gains -3, -1, -1
}

TEST(Judge, KnowsOtherMetricsOfChoices) {
  const ChoiceCase exact({Metric::exact_match, Metric::brier_score}, {-0.5, -5, -8}, 0);
  const double sum = std::exp(-0.5) + std::exp(-5) + std::exp(-8);
  const double p[3] = {std::exp(-0.5) / sum, std::exp(-5) / sum, std::exp(-8) / sum};
  EXPECT_EQ(exact.values()[0], 1);
  EXPECT_NEAR(exact.values()[1], (p[0] - 1) * (p[0] - 1) + p[1] * p[1] + p[2] * p[2], 1e-15);
  const ChoiceCase classes({Metric::mcc}, {-4, -3, -8}, 2);
  const auto judged = Judge(classes.task, classes.asked.question)
                          .judge(classes.document, classes.asked, classes.response, 0);
  EXPECT_EQ(judged.values[0].value, 2);
  EXPECT_EQ(judged.values[0].second, 1);
}

TEST(Judge, RefusesARightAnswerThatIsNone) {
  for (const int64_t right : {3, -1}) {
    try {
      ChoiceCase({Metric::acc}, {-1, -2, -3}, right).values();
      FAIL();
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("sets/x.jsonl:3: the right answer is "));
    }
  }
}

TEST(Judge, CountsWordsAndBytesOfTheOriginal) {
  const tasks::Task task = tasks::find_tasks({"wikitext"}, tasks::Profile::lm_eval).tasks[0];
  const tasks::Document document = tasks::document_of(R"({"page": " a b\u3000c \n"})");
  const tasks::AskedDocument asked{.question = {}, .asked = {{"", "a bc"}}};
  const Response response{.scores = {{-3, false}, {-4, false}}, .tokens = {2, 2}, .text = ""};
  const auto values = Judge(task, asked.question).judge(document, asked, response, 0).values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0].value, -7);
  EXPECT_EQ(values[0].second, 5);  // an empty one before and behind
  EXPECT_EQ(values[1].second, 10);
  ThreadPool pool(1);
  const std::vector<MetricValue> two{{-7, 5}, {-5, 1}};
  EXPECT_DOUBLE_EQ(summarize(tasks::Aggregation::weighted_perplexity, two, 100, pool).value,
                   std::exp(2));
  EXPECT_DOUBLE_EQ(summarize(tasks::Aggregation::bits_per_byte, two, 100, pool).value,
                   2 / std::log(2.0));
  EXPECT_EQ(summarize(tasks::Aggregation::nats_per_byte, two, 100, pool).value, 2);
  EXPECT_FALSE(summarize(tasks::Aggregation::bits_per_byte, two, 100, pool).error);
}

TEST(Judge, ComparesTextsWithAnyOfTheRightOnes) {
  const tasks::Task task = tasks::find_tasks({"triviaqa"}, tasks::Profile::lm_eval).tasks[0];
  tasks::AskedDocument asked;
  asked.question.target = tasks::list_value({"The Normans", "Norsemen"});
  const tasks::Document document = tasks::document_of("{}");
  const Judge judge(task, asked.question);
  const auto judged = [&](const char* text) {
    return judge.judge(document, asked, {.scores = {}, .tokens = {}, .text = text}, 0);
  };
  EXPECT_EQ(judged(" norsemen\n").values[0].value, 1);
  EXPECT_EQ(judged(" norsemen\n").filtered, "norsemen");
  EXPECT_EQ(judged("Norse").values[0].value, 0);
}

TEST(Judge, RefusesAWrittenAnswerWhoseRightOneIsNone) {
  ChoiceCase written({Metric::exact_match}, {}, -1);
  written.task.type = tasks::OutputType::generate_until;
  written.response.text = "abcd";
  const auto check = [&] {
    Judge(written.task, written.asked.question).check(written.document, written.asked.question);
  };
  EXPECT_THROW(check(), UserError);
  written.asked.question.target = chat::Value::integer(1);
  check();
  EXPECT_EQ(written.values(), (std::vector<double>{1}));
}

TEST(Summary, ErrorsAreThoseOfTheAggregation) {
  ThreadPool pool(2);
  const std::vector<MetricValue> values{{0}, {1}, {1}, {0}, {1}};
  const Summary mean = summarize(tasks::Aggregation::mean, values, 1, pool);
  EXPECT_DOUBLE_EQ(mean.value, 0.6);
  EXPECT_NEAR(*mean.error, std::sqrt(0.6 * 0.4 / 4), 1e-15);
  EXPECT_FALSE(summarize(tasks::Aggregation::mean, values, 0, pool).error);
  EXPECT_FALSE(summarize(tasks::Aggregation::mean, std::span(values).first(1), 100, pool).error);
  const Summary perplexity = summarize(tasks::Aggregation::perplexity, values, 2000, pool);
  EXPECT_DOUBLE_EQ(perplexity.value, std::exp(-0.6));
  // The delta method's exp(-m) sd / sqrt(n), without Bessel's correction.
  EXPECT_NEAR(*perplexity.error, std::exp(-0.6) * std::sqrt(0.24 / 5), 0.01);
}

}  // namespace
}  // namespace megalith::evaluate

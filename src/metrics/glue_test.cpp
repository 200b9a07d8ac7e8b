// SPDX-License-Identifier: Apache-2.0
#include "metrics/glue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace megalith::metrics {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Glue : public ::testing::Test {
 protected:
  std::filesystem::path put(const std::string& name, const std::string& content) {
    const auto path = std::filesystem::path(::testing::TempDir()) / ("glue_test_" + name);
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::vector<double> read(const std::string& task, const std::string& content) {
    return read_labels(put("labels", content), glue_task(task)).values;
  }
  /// The message of a refusal.
  std::string refused(const std::string& task, const std::string& content) {
    try {
      read(task, content);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Glue, ReadsLabelsInEachForm) {
  EXPECT_THAT(read("RTE", "entailment\nnot_entailment\n1\nLABEL_0"), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(read("mnli", "{\"label\": 2}\n{\"prediction\": \"neutral\"}\n"), ElementsAre(2, 1));
  EXPECT_THAT(read("boolq", "{\"label\": true}\n{\"label\": 0}\nfalse\nTrue\n"),
              ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(read("sts-b", "{\"logits\": [3.5], \"label\": \"LABEL_0\"}\n-0.25\n"),
              ElementsAre(3.5, -0.25));
  EXPECT_THAT(read("cola", "gj04\t1\t\tA \"quoted word.\ngj04\t0\t*\tAnother\" one.\n"),
              ElementsAre(1, 0));
  EXPECT_THAT(read("mrpc", "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\r\n1\t2\t3\r\n0\t4\t5\r\n"),
              ElementsAre(1, 0));
  EXPECT_THAT(read("qnli", "index\tprediction\n0\tnot_entailment\n1\tentailment\n"),
              ElementsAre(1, 0));
}

TEST_F(Glue, SaysWhereALabelIsNone) {
  EXPECT_THAT(refused("rte", "entailment\nmaybe\n"),
              HasSubstr("labels:2: \"maybe\" is no label of rte; they are 0 entailment, 1 "
                        "not_entailment"));
  EXPECT_THAT(refused("rte", "2\n"), HasSubstr("labels:1: "));
  EXPECT_THAT(refused("sst2", "{\"label\": -1}\n"), HasSubstr("marks an example without one"));
  EXPECT_THAT(refused("sst2", "{\"text\": 1}\n"), HasSubstr("none of \"prediction\""));
  EXPECT_THAT(refused("stsb", "high\n"), HasSubstr("is no number"));
  EXPECT_THAT(refused("rte", "index\tsentence1\n0\tx\n"), HasSubstr("a heading without"));
  EXPECT_THAT(refused("qnli", "index\tprediction\n1\tentailment\n"), HasSubstr("not 0"));
  EXPECT_THAT(refused("rte", "\n"), HasSubstr("has no labels"));
  EXPECT_THROW(glue_task("mnlo"), UserError);
}

TEST_F(Glue, ReportsEachTasksNumbers) {
  const Labels right{{1, 1, 0, 0}, {}}, said{{1, 0, 0, 0}, {}};
  EXPECT_EQ(glue_metrics(glue_task("mrpc"), right, said).dump(),
            R"({"accuracy":0.75,"f1":0.6666666666666666})");
  EXPECT_EQ(glue_metrics(glue_task("rte"), right, said).dump(), R"({"accuracy":0.75})");
  EXPECT_NEAR(glue_metrics(glue_task("cola"), right, said)["matthews_correlation"].get<double>(),
              (1.0 * 2 - 0) / std::sqrt(1.0 * 2 * 2 * 3), 1e-15);
  const auto ranked = glue_metrics(glue_task("stsb"), {{1, 2, 3}, {}}, {{2, 4, 8}, {}});
  EXPECT_NEAR(ranked["spearmanr"].get<double>(), 1, 1e-15);
  EXPECT_THROW(glue_metrics(glue_task("rte"), right, {{1}, {}}), UserError);
}

/// Questions a (both answers right) and b (one of two).
TEST_F(Glue, CountsAnswersOfAQuestionTogether) {
  const Labels right{{1, 0, 1, 0}, {"a", "a", "b", "b"}}, said{{1, 0, 1, 1}, {}};
  const auto metrics = glue_metrics(glue_task("multirc"), right, said);
  EXPECT_EQ(metrics["exact_match"], 0.5);
  EXPECT_DOUBLE_EQ(metrics["f1_m"].get<double>(), (1 + (0.0 + 2.0 / 3) / 2) / 2);
  EXPECT_DOUBLE_EQ(metrics["f1_a"].get<double>(), 2 * 2.0 / 5);
}

TEST_F(Glue, WritesWhatIsSubmitted) {
  EXPECT_EQ(submission(glue_task("rte"), {{1, 0}, {}}),
            "index\tprediction\n0\tnot_entailment\n1\tentailment\n");
  EXPECT_EQ(submission(glue_task("sst2"), {{1, 0}, {}}), "index\tprediction\n0\t1\n1\t0\n");
  EXPECT_EQ(submission(glue_task("stsb"), {{2.5, -1}, {}}),
            "index\tprediction\n0\t2.500\n1\t0.000\n");
  EXPECT_EQ(glue_task("mnli-mm").file, "MNLI-mm.tsv");
  EXPECT_THROW(submission(glue_task("cb"), {{1}, {}}), UserError);
}

}  // namespace
}  // namespace megalith::metrics

// SPDX-License-Identifier: Apache-2.0
#include "evaluate/sample_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"

namespace megalith::evaluate {
namespace {

using ::testing::HasSubstr;

class SampleComparison : public ::testing::Test {
 protected:
  std::filesystem::path put(const std::string& name, const std::vector<std::string>& lines) {
    const auto path =
        std::filesystem::path(::testing::TempDir()) / ("sample_comparison_test_" + name);
    std::ofstream file(path);
    for (const std::string& line : lines) file << line << "\n";
    return path;
  }
  static std::string sample(int id, const std::string& values, const std::string& hash = "p") {
    return fmt::format(
        R"({{"doc_id":{},"filter":"none","doc_hash":"d{}","prompt_hash":"{}","target_hash":"t",)"
        R"("metrics":["acc","word_perplexity","mcc"],{}}})",
        id, id, hash, values);
  }
  std::string refused(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    try {
      compare_samples(put("a", a), put("b", b));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(SampleComparison, IsOfTheSameDocuments) {
  const auto first =
      put("first", {sample(0, R"("acc":1.0,"word_perplexity":[-4.0,2],"mcc":[1,0])"),
                    sample(1, R"("acc":0.0,"word_perplexity":[-6.0,2],"mcc":[1,0])")});
  // In another order.
  const auto second =
      put("second", {sample(1, R"("acc":1.0,"word_perplexity":[-5.0,2],"mcc":[1,1])"),
                     sample(0, R"("acc":1.0,"word_perplexity":[-4.5,2],"mcc":[1,1])")});
  const auto found = compare_samples(first, second);
  ASSERT_EQ(found.size(), 2U);  // acc, word_perplexity
  EXPECT_EQ(found[0].metric, "acc");
  EXPECT_EQ(found[0].first, 0.5);
  EXPECT_EQ(found[0].second, 1);
  EXPECT_EQ(found[0].paired.second_better, 1);
  EXPECT_EQ(found[0].paired.p, 1);
  EXPECT_EQ(found[1].first, -5);
  EXPECT_EQ(found[1].paired.difference, 0.25);
}

TEST_F(SampleComparison, KnowsThatALowerBrierScoreIsBetter) {
  const auto file = [&](const char* name, double score) {
    std::vector<std::string> lines;
    for (int id = 0; id < 2; ++id)
      lines.push_back(fmt::format(
          R"({{"doc_id":{},"filter":"none","doc_hash":"d","prompt_hash":"p","target_hash":"t",)"
          R"("metrics":["brier_score"],"brier_score":{}}})",
          id, score));
    return put(name, lines);
  };
  const auto found = compare_samples(file("low", 0.25), file("high", 0.5));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].paired.difference, 0.25);
  EXPECT_EQ(found[0].paired.first_better, 2);
  EXPECT_EQ(found[0].paired.second_better, 0);
}

TEST_F(SampleComparison, RefusesOthers) {
  const std::string good = sample(0, R"("acc":1.0)");
  EXPECT_THAT(refused({good, sample(1, R"("acc":1.0)")}, {good}), HasSubstr("2 samples"));
  EXPECT_THAT(refused({good}, {sample(0, R"("acc":1.0)", "q")}), HasSubstr("document 0 differs"));
  EXPECT_THAT(refused({good, good}, {good, good}), HasSubstr("a:2: document 0 is there twice"));
  EXPECT_THAT(refused({"{}"}, {good}), HasSubstr("a:1: has no \"doc_hash\""));
  EXPECT_THAT(refused({"["}, {good}), HasSubstr("a:1: "));
}

}  // namespace
}  // namespace megalith::evaluate

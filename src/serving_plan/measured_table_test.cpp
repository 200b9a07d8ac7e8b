// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/measured_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "serving_plan/published_latency_fixture.h"

namespace megalith::serving_plan {
namespace {

using ::testing::HasSubstr;

class MeasuredTable : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    const std::filesystem::path path = ::testing::TempDir() + "measured_table_test.csv";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string refusal(const std::string& text) {
    try {
      read_measured_table(write(text));
    } catch (const UserError& error) {
      return error.what();
    }
    return "taken";
  }
};

/// As NeMo's summary writes them: what ran out of memory is a row with a word for a latency.
std::string table_of(std::span<const PublishedLatency> rows, int64_t input, int64_t output) {
  std::string text = "TP,PP,BS,Latency [ms],Throughput per GPU [samples/sec/gpu]\n";
  for (const PublishedLatency& row : rows) {
    if (row.input != input || row.output != output) continue;
    const std::string places = fmt::format("{},{},{},", row.tensor, row.pipeline, row.batch);
    text += row.milliseconds == 0
                ? places + "OOM,\n"
                : fmt::format("{}{},{:.3f}\n", places, row.milliseconds,
                              static_cast<double>(row.batch) * 1000 / row.milliseconds /
                                  static_cast<double>(row.tensor * row.pipeline));
  }
  return text;
}

struct Pick {
  double most_ms;  // 0: no limit
  int64_t tensor, pipeline, batch;
  double throughput;
};

/// Thirteen questions to FasterTransformer's tables of 60 tokens in and 20 out.
TEST_F(MeasuredTable, ThirteenPicksOfPublishedTables) {
  constexpr Pick k20B[] = {{250, 8, 1, 8, 4.05},   {300, 8, 1, 16, 7.35},   {400, 8, 1, 32, 12.31},
                           {500, 4, 1, 32, 19.14}, {1000, 2, 1, 64, 36.08}, {2000, 1, 1, 64, 47.34},
                           {0, 1, 1, 256, 61.82}};
  constexpr Pick k530B[] = {{1200, 32, 1, 4, 0.104},  {1500, 32, 1, 16, 0.344},
                            {2000, 32, 1, 32, 0.554}, {3000, 16, 1, 32, 0.847},
                            {5000, 16, 1, 64, 1.182}, {0, 16, 1, 128, 1.480}};
  const auto check = [&](std::span<const PublishedLatency> table, std::span<const Pick> picks) {
    const std::vector<Candidate> rows = read_measured_table(write(table_of(table, 60, 20)));
    for (const Pick& pick : picks) {
      const Ranking ranking = rank(rows, {.latency_ms = pick.most_ms}, "table");
      const Candidate& best = rows[ranking.order.front()];
      EXPECT_EQ(best.tensor, pick.tensor) << pick.most_ms;
      EXPECT_EQ(best.pipeline, pick.pipeline) << pick.most_ms;
      EXPECT_EQ(best.batch, pick.batch) << pick.most_ms;
      EXPECT_NEAR(best.throughput, pick.throughput, 0.0051) << pick.most_ms;
    }
  };
  check(kLatency20B, k20B);
  check(kLatency530B, k530B);
}

TEST_F(MeasuredTable, WhatFailedIsARowWithItsCause) {
  const auto rows = read_measured_table(write(table_of(kLatency530B, 60, 20)));
  ASSERT_EQ(rows.size(), 27u);
  const Ranking ranking = rank(rows, {}, "table");
  EXPECT_EQ(ranking.order.size(), 26u);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool failed = rows[i].tensor == 16 && rows[i].batch == 256;
    EXPECT_EQ(rows[i].failure, failed ? "OOM" : "");
    EXPECT_EQ(ranking.faults[i], rows[i].failure);
  }
}

TEST_F(MeasuredTable, ReadsWhatSpreadsheetsWrite) {
  const auto rows = read_measured_table(
      write("\xEF\xBB\xBF\"BS\", Latency [ms] ,PP,TP,\"note, if any\",TTFT [ms],TPOT [ms]\r\n"
            "4,200,1,2,\"a \"\"b\"\"\",50,7.5\r\n\r\n8,MISSING_LOG,1,2,,,\r\n1,100,1,1,,,"));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].batch, 4);
  EXPECT_EQ(rows[0].tensor, 2);
  EXPECT_EQ(rows[0].ttft_ms, 50);
  EXPECT_EQ(rows[0].tpot_ms, 7.5);
  EXPECT_EQ(rows[0].throughput, 10);
  EXPECT_EQ(rows[1].failure, "MISSING_LOG");
  EXPECT_EQ(rows[2].throughput, 10);
  EXPECT_FALSE(rows[2].ttft_ms.has_value());
}

TEST_F(MeasuredTable, WhatIsNoTableIsRefusedWithItsPlace) {
  const std::string head = "TP,PP,BS,Latency [ms],Throughput per GPU [samples/sec/gpu]\n";
  EXPECT_THAT(refusal(""), HasSubstr("has no rows"));
  EXPECT_THAT(refusal(head), HasSubstr("has no rows"));
  EXPECT_THAT(refusal("TP,PP,BS\n"), HasSubstr("csv:1: has no column 'Latency [ms]'"));
  EXPECT_THAT(refusal("TP,PP,BS,TP,Latency [ms]\n"), HasSubstr("column 'TP' is there twice"));
  EXPECT_THAT(refusal(head + "1,1,4\n"), HasSubstr("csv:2: has 3 cells, the first line has 5"));
  EXPECT_THAT(refusal(head + "1,0,4,100,40\n"), HasSubstr("csv:2: PP is '0'"));
  EXPECT_THAT(refusal(head + "1,1,4.5,100,40\n"), HasSubstr("BS is '4.5'"));
  EXPECT_THAT(refusal(head + "1,1,4,-3,40\n"), HasSubstr("Latency [ms] is '-3'"));
  EXPECT_THAT(refusal(head + "1,1,4,0,\n"), HasSubstr("not milliseconds above 0"));
  EXPECT_THAT(refusal(head + "1,1,4,100,44\n"), HasSubstr("/ latency / TP / PP is 40.000"));
  EXPECT_THAT(refusal(head + "1,1,4,100,nan\n"), HasSubstr("is 'nan'"));
  EXPECT_THAT(refusal(head + std::string(70000, '1')), HasSubstr("is this a table?"));
  EXPECT_EQ(refusal(head + "1,1,4,100,40\n"), "taken");
  EXPECT_EQ(refusal(head + "1,1,4,nan,\n"), "taken");  // a row without figures
}

}  // namespace
}  // namespace megalith::serving_plan

// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/candidate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace megalith::serving_plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Candidate made(int64_t tensor, int64_t batch, double latency) {
  Candidate c;
  c.tensor = tensor;
  c.batch = batch;
  c.latency_ms = latency;
  c.throughput = throughput_of(c);
  return c;
}

std::string refusal(std::span<const Candidate> candidates, const Limits& limits) {
  try {
    rank(candidates, limits, "these");
  } catch (const UserError& error) {
    return error.what();
  }
  return "taken";
}

TEST(Candidate, TheFrontIsWhatNothingBeats) {
  std::vector<Candidate> all;
  for (int64_t i = 0; i < 200; ++i)
    all.push_back(
        made(1 + i % 4, 1 + i * 7 % 32,
             100 + static_cast<double>((i * 7919) % 997) + 3 * static_cast<double>(i % 5)));
  const Ranking ranking = rank(all, {}, "these");
  const auto beaten = [&](size_t i) {
    for (const Candidate& other : all)
      if (other.latency_ms <= all[i].latency_ms && other.throughput >= all[i].throughput &&
          (other.latency_ms < all[i].latency_ms || other.throughput > all[i].throughput))
        return true;
    return false;
  };
  std::vector<size_t> front = ranking.pareto;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_on = std::ranges::find(front, i) != front.end();
    EXPECT_EQ(is_on, !beaten(i)) << i;
  }
  EXPECT_TRUE(std::ranges::is_sorted(front, {}, [&](size_t i) { return all[i].latency_ms; }));
  EXPECT_EQ(front.back(), ranking.order.front());
}

TEST(Candidate, EqualOnesAreOnTheFrontOnce) {
  const std::vector<Candidate> all = {made(1, 8, 100), made(1, 8, 100), made(2, 8, 100)};
  const Ranking ranking = rank(all, {}, "these");
  EXPECT_THAT(ranking.pareto, ElementsAre(0));
  EXPECT_THAT(ranking.order, ElementsAre(0, 1, 2));
}

TEST(Candidate, LimitsAreKept) {
  std::vector<Candidate> all = {made(1, 64, 900), made(2, 64, 500), made(4, 64, 300)};
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].ttft_ms = 100.0 * static_cast<double>(i + 1);
    all[i].tpot_ms = 30.0 / static_cast<double>(i + 1);
  }
  EXPECT_EQ(rank(all, {}, "these").order.front(), 0u);
  EXPECT_EQ(rank(all, {.latency_ms = 500}, "these").order.front(), 1u);
  EXPECT_EQ(rank(all, {.tpot_ms = 11}, "these").order.front(), 2u);
  EXPECT_EQ(rank(all, {.ttft_ms = 200, .tpot_ms = 20}, "these").order.front(), 1u);
  EXPECT_THAT(rank(all, {.gpus = 2}, "these").faults[2], HasSubstr("takes 4 GPUs, --gpus is 2"));
  EXPECT_THAT(refusal(all, {.latency_ms = 50}),
              HasSubstr("none of 3 rows keeps to the limits; the least latency is 300 ms"));
  EXPECT_THAT(refusal(all, {.latency_ms = 500, .tpot_ms = 11, .gpus = 2}),
              HasSubstr("raise a limit"));
  all[1].ttft_ms.reset();
  EXPECT_THAT(refusal(all, {.ttft_ms = 1000}), HasSubstr("--max-ttft-ms limits the time"));
}

TEST(Candidate, WhenAllFailedTheFirstCauseIsSaid) {
  std::vector<Candidate> all = {made(1, 64, 900)};
  all[0].failure = "OOM";
  EXPECT_THAT(refusal(all, {}), HasSubstr("none of 1 rows has a latency; the first says 'OOM'"));
}

}  // namespace
}  // namespace megalith::serving_plan

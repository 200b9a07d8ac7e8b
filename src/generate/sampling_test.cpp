// SPDX-License-Identifier: Apache-2.0
// Draws against the definitions of the cuts, worked out plainly in double; penalties and bans.
#include "generate/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "generate/penalties.h"

namespace megalith::generate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  for (const float logit : logits) p.push_back(std::exp(static_cast<double>(logit) / temperature));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

/// The tokens of a shuffled list of indices, sorted by `worse`, until they hold `share`.
std::set<int32_t> until(std::vector<double> p, double share,
                        const std::function<double(size_t)>& rank) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, rank);
  std::set<int32_t> kept;
  double sum = 0;
  for (const size_t i : order) {
    if (sum >= share) break;
    sum += p[i];
    kept.insert(static_cast<int32_t>(i));
  }
  return kept;
}

std::set<int32_t> drawn(const std::vector<float>& logits, const SamplingOptions& options) {
  std::set<int32_t> ids;
  std::vector<int32_t> before;
  for (int i = 0; i < 4000; ++i) {
    ids.insert(choose_token(logits, options, {before, 0}).id);
    before.push_back(0);
  }
  return ids;
}

const std::vector<float> kLogits = {1.5F, -1, 0.25F, 2, 0.5F, -0.5F, 1, 0};

TEST(Sampling, DrawsAsOftenAsIsProbable) {
  const SamplingOptions options{.temperature = 0.8, .seed = 3};
  const std::vector<double> p = softmax(kLogits, options.temperature);
  constexpr int kDraws = 20000;
  std::vector<int> counts(kLogits.size());
  std::vector<int32_t> before;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(choose_token(kLogits, options, {before, 0}).id)];
    before.push_back(0);
  }
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * kDraws, sigma = std::sqrt(expected * (1 - p[i]));
    EXPECT_NEAR(counts[i], expected, 5 * sigma) << i;
  }
}

TEST(Sampling, CutsAreTheirDefinitions) {
  for (const double temperature : {0.5, 1.0, 1.7}) {
    const std::vector<double> p = softmax(kLogits, temperature);
    const auto likely = [&](size_t i) { return -p[i]; };
    for (const double top_p : {0.2, 0.6, 0.95})
      EXPECT_EQ(drawn(kLogits, {.temperature = temperature, .top_p = top_p}),
                until(p, top_p, likely));
    for (const double min_p : {0.1, 0.4, 1.0}) {
      std::set<int32_t> kept;
      for (size_t i = 0; i < p.size(); ++i)
        if (p[i] >= min_p * p[3]) kept.insert(static_cast<int32_t>(i));
      EXPECT_EQ(drawn(kLogits, {.temperature = temperature, .min_p = min_p}), kept) << min_p;
    }
    double entropy = 0;
    for (const double x : p) entropy -= x * std::log(x);
    const auto usual = [&](size_t i) { return std::abs(-std::log(p[i]) - entropy); };
    for (const double typical_p : {0.3, 0.7})
      EXPECT_EQ(drawn(kLogits, {.temperature = temperature, .typical_p = typical_p}),
                until(p, typical_p, usual));
  }
  EXPECT_EQ(drawn(kLogits, {.top_k = 2}), (std::set<int32_t>{0, 3}));
  // One after the other: of the three most likely, half.
  EXPECT_EQ(drawn(kLogits, {.top_k = 3, .top_p = 0.5}), (std::set<int32_t>{3}));
}

TEST(Sampling, WithoutTemperatureTheMostLikelyIsTaken) {
  const Choice choice = choose_token(kLogits, {.temperature = 0}, {});
  EXPECT_EQ(choice.id, 3);
  EXPECT_NEAR(choice.logprob, std::log(softmax(kLogits, 1)[3]), 1e-12);
}

TEST(Sampling, LogprobsAreOfThePlainDistribution) {
  const std::vector<int32_t> ids = {3, 3, 0};
  const Choice choice = choose_token(
      kLogits, {.temperature = 0, .repetition_penalty = 4, .frequency_penalty = 1}, {ids, 0});
  EXPECT_EQ(choice.id, 6);
  EXPECT_NEAR(choice.logprob, std::log(softmax(kLogits, 1)[6]), 1e-12);
}

TEST(Penalties, MoveLogits) {
  const std::vector<int32_t> ids = {0, 1, 3, 3, 3};
  const auto moved = [&](const SamplingOptions& o) { return moved_logits(kLogits, o, {ids, 3}); };
  EXPECT_THAT(moved({.repetition_penalty = 2}),
              ElementsAre(0.75F, -2, 0.25F, 1, 0.5F, -0.5F, 1, 0));
  EXPECT_THAT(moved({.presence_penalty = 0.5}),
              ElementsAre(1.5F, -1, 0.25F, 1.5F, 0.5F, -0.5F, 1, 0));
  EXPECT_THAT(moved({.frequency_penalty = 0.25}),
              ElementsAre(1.5F, -1, 0.25F, 1.5F, 0.5F, -0.5F, 1, 0));
  EXPECT_THAT(moved({.logit_bias = {{1, 3.0}, {99, 1.0}, {-1, 1.0}}}),
              ElementsAre(1.5F, 2, 0.25F, 2, 0.5F, -0.5F, 1, 0));
}

TEST(Penalties, NoRunComesTwice) {
  std::mt19937 random(4);
  for (const int64_t n : {1, 2, 3}) {
    std::vector<int32_t> ids = n == 1 ? std::vector<int32_t>{1, 2} : std::vector<int32_t>{1, 2, 1};
    std::set<std::vector<int32_t>> seen;
    const size_t most = n == 1 ? 7 : 50;  // of eight tokens each may come once
    while (ids.size() < most) {
      std::vector<float> logits(8);
      for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 100;
      ids.push_back(choose_token(logits, {.no_repeat_ngram = n}, {ids, 2}).id);
    }
    for (size_t at = 0; at + static_cast<size_t>(n) <= ids.size(); ++at) {
      const auto from = ids.begin() + static_cast<ptrdiff_t>(at);
      EXPECT_TRUE(seen.emplace(from, from + n).second) << "n " << n << " at " << at;
    }
  }
}

TEST(Penalties, BadWordsAreNotWritten) {
  const std::vector<int32_t> ids = {5, 4, 5};
  const SamplingOptions options{.temperature = 0, .bad_words = {{3}, {4, 5, 0}, {9, 6}}};
  EXPECT_EQ(choose_token(kLogits, options, {ids, 0}).id, 6);
  EXPECT_EQ(choose_token(kLogits, options, {ids, 2}).id, 0);  // the prompt is no part of a word
  // Where nothing is left, nothing is banned.
  SamplingOptions all{.temperature = 0};
  for (int32_t id = 0; id < 8; ++id) all.bad_words.push_back({id});
  EXPECT_EQ(choose_token(kLogits, all, {ids, 0}).id, 3);
}

TEST(Sampling, ABannedTokenIsNeverDrawn) {
  const std::set<int32_t> ids = drawn({0, 0, 0}, {.temperature = 5, .bad_words = {{0}, {2}}});
  EXPECT_EQ(ids, (std::set<int32_t>{1}));
}

TEST(Sampling, OptionsThatMakeNoSenseAreNamed) {
  const auto fault = [](const SamplingOptions& options) -> std::string {
    try {
      check(options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault({}), "");
  EXPECT_THAT(fault({.temperature = -1}), HasSubstr("--temperature"));
  EXPECT_THAT(fault({.top_k = -1}), HasSubstr("--top-k"));
  EXPECT_THAT(fault({.top_p = 0}), HasSubstr("--top-p"));
  EXPECT_THAT(fault({.min_p = 1.5}), HasSubstr("--min-p"));
  EXPECT_THAT(fault({.typical_p = 0}), HasSubstr("--typical-p"));
  EXPECT_THAT(fault({.repetition_penalty = 0}), HasSubstr("--repetition-penalty"));
  EXPECT_THAT(fault({.presence_penalty = NAN}), HasSubstr("--presence-penalty"));
  EXPECT_THAT(fault({.frequency_penalty = 1e9}), HasSubstr("--frequency-penalty"));
  EXPECT_THAT(fault({.no_repeat_ngram = -1}), HasSubstr("--no-repeat-ngram"));
}

}  // namespace
}  // namespace megalith::generate

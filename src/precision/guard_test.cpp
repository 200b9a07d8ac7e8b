// SPDX-License-Identifier: Apache-2.0
#include "precision/guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace megalith::precision {
namespace {

using Verdict = Guard::Verdict;

/// Two layers of two products each.
Guard make(const GuardOptions& options) { return {options, {0, 0, 1, 1}}; }
GuardCheck differing(double share) { return {.loss = 2 * (1 + share), .wide_loss = 2}; }

TEST(Guard, WarnsAndCountsByTheDifferenceOfLosses) {
  Guard guard = make({.every = 10});
  EXPECT_EQ(guard.judge(10, differing(0)), Verdict::good);
  EXPECT_EQ(guard.judge(20, differing(-0.003)), Verdict::warn);
  EXPECT_EQ(guard.judge(30, differing(0.006)), Verdict::counts);
  EXPECT_EQ(guard.judge(40, differing(0.006)), Verdict::counts);
  EXPECT_EQ(guard.judge(50, differing(0.003)), Verdict::warn);  // in a row alone
  EXPECT_EQ(guard.judge(60, differing(0.006)), Verdict::counts);
  EXPECT_EQ(guard.judge(70, differing(-0.006)), Verdict::counts);
  EXPECT_EQ(guard.judge(80, differing(0.006)), Verdict::falls_back);
  EXPECT_EQ(guard.num_wide(), 4);  // nothing says which layer
}

TEST(Guard, CountsGradientsThatPointElsewhereAndWhatIsNoNumber) {
  Guard guard = make({.every = 1, .patience = 100});
  EXPECT_EQ(guard.judge(1, {.loss = 1, .wide_loss = 1, .cosine = 0.5}), Verdict::counts);
  EXPECT_EQ(guard.judge(2, {.loss = 1, .wide_loss = 1, .cosine = NAN}), Verdict::counts);
  EXPECT_EQ(guard.judge(3, {.loss = NAN, .wide_loss = 1}), Verdict::counts);
  EXPECT_EQ(guard.judge(4, {.loss = 1, .wide_loss = INFINITY}), Verdict::counts);
  EXPECT_EQ(guard.judge(5, {.loss = 1, .wide_loss = 1, .shares = {{}, {}, {0.02, 0}, {}}}),
            Verdict::counts);
  EXPECT_EQ(guard.beyond(), 5);
}

TEST(Guard, TheWorstLayerFallsBackAndReturns) {
  Guard guard = make({.every = 10, .patience = 1, .quiet = 100});
  GuardCheck check = differing(1);
  check.shares = {{0.1, 0.9}, {}, {}, {0.2, 0}};
  EXPECT_EQ(guard.judge(20, check), Verdict::falls_back);
  EXPECT_TRUE(guard.is_wide(2) && guard.is_wide(3));
  EXPECT_EQ(guard.num_wide(), 2);
  EXPECT_EQ(guard.judge(30, check), Verdict::falls_back);  // the next in line
  EXPECT_EQ(guard.num_wide(), 4);
  EXPECT_TRUE(guard.returning(119).empty());
  EXPECT_EQ(guard.returning(120), (std::vector<size_t>{2, 3}));
  EXPECT_EQ(guard.num_wide(), 2);
  EXPECT_EQ(guard.returning(130), (std::vector<size_t>{0, 1}));
}

TEST(Guard, FlushedSharesDecideWhereNothingSaturates) {
  Guard guard = make({.every = 10, .patience = 1});
  GuardCheck check = differing(1);
  check.shares = {{0, 0.3}, {}, {0, 0.2}, {}};
  guard.judge(10, check);
  EXPECT_TRUE(guard.is_wide(0) && guard.is_wide(1));
  EXPECT_EQ(guard.num_wide(), 2);
}

/// Gradients that became 0 show in no loss, and hardly in a cosine that larger ones decide.
TEST(Guard, FlushedElementsCountBeyondTheirLimit) {
  Guard guard = make({.every = 10, .flushed = 0.25, .patience = 1});
  GuardCheck check = differing(0);
  check.shares = {{0, 0.1}, {0.005, 0.25}, {}, {}};
  EXPECT_EQ(guard.judge(10, check), Verdict::good);
  // Further beyond its limit than the other layer is within its own.
  check.shares = {{0.009, 0.1}, {}, {0, 0.3}, {}};
  EXPECT_EQ(guard.judge(20, check), Verdict::falls_back);
  EXPECT_TRUE(guard.is_wide(2) && guard.is_wide(3));
  EXPECT_EQ(guard.num_wide(), 2);
}

TEST(Guard, ItsStateIsWhole) {
  Guard guard = make({.every = 10, .patience = 2, .quiet = 50});
  guard.judge(10, differing(1));
  guard.judge(20, differing(1));
  guard.judge(30, differing(1));
  Guard again = make({.every = 10, .patience = 2, .quiet = 50});
  again.restore(guard.to_json());
  EXPECT_EQ(again.to_json(), guard.to_json());
  EXPECT_EQ(again.beyond(), 1);
  EXPECT_EQ(again.num_wide(), 4);
  for (const char* text :
       {"{}", "[]", R"({"beyond": -1, "wide_until": [0, 0, 0, 0]})",
        R"({"beyond": 0, "wide_until": [0]})", R"({"beyond": 0, "wide_until": [0, 0, 0, "x"]})"}) {
    EXPECT_THROW(again.restore(nlohmann::json::parse(text)), IntegrityError) << text;
  }
}

}  // namespace
}  // namespace megalith::precision

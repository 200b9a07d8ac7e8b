// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/merges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace megalith::vocabularies {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Merges, EveryWayToMakeATokenHasItsRank) {
  const std::vector<MergeToken> parts = {{"a", 0}, {"b", 1}, {"ab", 2}, {"ba", 3}};
  const Merges merges = find_merges(parts, {{"ba", 3, 1}, {"aba", 4, 0}, {"ab", 2, 5}}, "test");
  EXPECT_THAT(merges.pairs, ElementsAre(Pair(0, 1), Pair(1, 0), Pair(0, 3), Pair(2, 0)));
  EXPECT_THAT(merges.ranks, ElementsAre(0, 1, 2, 2));
}

TEST(Merges, TokensOfOneScoreShareARank) {
  const std::vector<MergeToken> parts = {{"a", 0}, {"b", 1}};
  const Merges merges =
      find_merges(parts, {{"ab", 2, 1}, {"ba", 3, 1}, {"x", 4, 1}, {"bb", 5, 0}}, "test");
  EXPECT_THAT(merges.ranks, ElementsAre(0, 0, 2));
}

TEST(Merges, WhatIsTooMuchIsRefused) {
  const std::string text(kMaxTokenBytes + 1, 'a');
  EXPECT_THROW(find_merges({}, {{text, 0}}, "test"), UserError);
  const std::string good(kMaxTokenBytes, 'a');
  EXPECT_THROW(
      find_merges({}, std::vector<MergeToken>(kMaxTokensBytes / kMaxTokenBytes + 1, {good, 0}),
                  "test"),
      UserError);
}

}  // namespace
}  // namespace megalith::vocabularies

// SPDX-License-Identifier: Apache-2.0
#include "config/layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::config {
namespace {

using testing::HasSubstr;

Recipe recipe_of(int64_t layers, int64_t tensor_shards, int64_t data_shards) {
  Recipe r;
  r.model.vocab = 100;
  r.model.layers = layers;
  r.model.heads = 8;
  r.parallel.tensor_shards = tensor_shards;
  r.parallel.data_shards = data_shards;
  r.train.steps = 1;
  resolve(r);
  return r;
}

TEST(Layouts, NearestLayoutsFitAndHaveTheRanksIfAnyDo) {
  for (const int64_t layers : {1, 4, 12}) {
    for (const int64_t tensor : {1, 2, 8}) {
      for (const int64_t data : {1, 2, 6}) {
        for (const int64_t ranks : {1, 2, 3, 5, 8, 24}) {
          const Recipe r = recipe_of(layers, tensor, data);
          const auto found = nearest_layouts(r, ranks);
          ASSERT_FALSE(found.empty());
          int64_t best = 1'000'000;
          for (int64_t t = 1; t <= tensor; ++t) {
            for (int64_t d = 1; d <= data; ++d) {
              const bool fits = tensor % t == 0 && (d == 1 || d == data || (data == 6 && d == 2));
              for (int64_t p = 1; fits && p <= layers; ++p)
                best = std::min(best, std::abs(t * d * p - ranks));
            }
          }
          EXPECT_EQ(std::abs(found[0].ranks() - ranks), best)
              << layers << " " << tensor << " " << data << " " << ranks;
          for (const LayoutChoice& c : found) {
            Recipe with = r;
            with.train.global_batch = 24;
            with.train.micro_batch = 1;
            with.parallel.tensor = c.tensor;
            with.parallel.pipeline = c.pipeline;
            with.parallel.data = c.data;
            EXPECT_TRUE(validate(with).empty()) << validate(with)[0].text();
          }
        }
      }
    }
  }
}

TEST(Layouts, RanksWithoutALayoutAreDataRanks) {
  Recipe r = recipe_of(4, 4, 4);
  settle_layout(r, 0);
  EXPECT_EQ(num_ranks(r), 1);
  settle_layout(r, 2);
  EXPECT_EQ(r.parallel.data, 2);
  settle_layout(r, 2);  // settled: the same number again is no contradiction
  EXPECT_EQ(num_ranks(r), 2);
}

TEST(Layouts, ContradictionsNameLayoutsThatFit) {
  const auto refusal = [](Recipe r, int64_t ranks) -> std::string {
    try {
      settle_layout(r, ranks);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  Recipe r = recipe_of(4, 4, 1);
  EXPECT_THAT(refusal(r, 2),
              HasSubstr("parallel.tensor 2 x parallel.pipeline 1 x parallel.data 1"));
  r.parallel.tensor = 2;
  EXPECT_THAT(refusal(r, 4),
              HasSubstr("parallel.tensor 2 x parallel.pipeline 2 x parallel.data 1"));
  EXPECT_EQ(refusal(r, 2), "");
}

}  // namespace
}  // namespace megalith::config

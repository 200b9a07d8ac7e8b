// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace megalith {
namespace {

TEST(Nearest, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("abc", "acb"), 1);   // a swap
  EXPECT_EQ(edit_distance("abc", "abxc"), 1);  // an insertion
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("layres", "layers"), 1);
}

TEST(Nearest, FindsMistypedAndMisplacedKeys) {
  const std::vector<std::string> known = {
      "run",          "model",       "model.layers",    "model.hidden",
      "optimizer.lr", "train.hours", "optimizer.min_lr"};
  EXPECT_EQ(nearest("model.layres", known), "model.layers");
  EXPECT_EQ(nearest("modle", known), "model");
  EXPECT_EQ(nearest("hidden", known), "model.hidden");
  EXPECT_EQ(nearest("train.lr", known), "optimizer.lr");
  EXPECT_EQ(nearest("optimiser.lr", known), "optimizer.lr");
  EXPECT_EQ(nearest(std::string(1 << 20, 'x'), known), nearest(std::string(1 << 20, 'x'), known));
}

}  // namespace
}  // namespace megalith

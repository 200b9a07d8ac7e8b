// SPDX-License-Identifier: Apache-2.0
#include "metrics/classification.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace megalith::metrics {
namespace {

using Classes = std::vector<int64_t>;
using Numbers = std::vector<double>;

TEST(Accuracy, CountsEqualLabels) {
  EXPECT_DOUBLE_EQ(accuracy(Classes{0, 1, 2, 1}, Classes{0, 1, 1, 1}), 0.75);
}

TEST(F1, IsOfThePositiveClass) {
  const Classes labels{1, 1, 1, 0, 0, 0, 0}, said{1, 1, 0, 1, 1, 0, 0};
  EXPECT_DOUBLE_EQ(f1(labels, said), 2 * 2.0 / (2 * 2 + 2 + 1));
  EXPECT_DOUBLE_EQ(f1(labels, said, 0), 2 * 2.0 / (2 * 2 + 1 + 2));
  EXPECT_DOUBLE_EQ(macro_f1(labels, said), (4.0 / 7 + 4.0 / 7) / 2);
  EXPECT_EQ(f1(Classes{0, 0}, Classes{0, 0}), 0);
  // A class that is said, and is no label, counts.
  EXPECT_DOUBLE_EQ(macro_f1(Classes{0, 0}, Classes{0, 2}), (2.0 / 3) / 2);
}

TEST(Matthews, OfTwoClassesIsTheFormulaOfCounts) {
  // TP 2, TN 2, FP 2, FN 1
  const Classes labels{1, 1, 1, 0, 0, 0, 0}, said{1, 1, 0, 1, 1, 0, 0};
  EXPECT_NEAR(matthews(labels, said), (2.0 * 2 - 2 * 1) / std::sqrt(4.0 * 3 * 4 * 3), 1e-15);
  EXPECT_EQ(matthews(labels, Classes(7, 1)), 0);
  EXPECT_EQ(matthews(labels, labels), 1);
}

TEST(Matthews, OfThreeClasses) {
  EXPECT_NEAR(matthews(Classes{0, 1, 2, 2, 1, 0, 1, 1}, Classes{0, 2, 2, 2, 1, 0, 0, 1}),
              0.6831300510639733, 1e-15);
}

TEST(Correlations, AreThoseOfTheFormulas) {
  const Numbers x{1, 2, 2, 4, 5}, y{3, 1, 4, 1, 5};
  EXPECT_NEAR(pearson(x, y), 0.23814483610392007, 1e-15);
  // Ranks 1, 2.5, 2.5, 4, 5 and 3, 1.5, 4, 1.5, 5.
  EXPECT_NEAR(spearman(x, y), 0.2894736842105263, 1e-15);
  EXPECT_DOUBLE_EQ(spearman(x, Numbers{1, 8, 8, 64, 125}), 1);
  EXPECT_TRUE(std::isnan(pearson(x, Numbers(5, 2.0))));
}

TEST(Scores, AreThoseThatGlueReports) {
  const Numbers labels{1, 1, 1, 0, 0, 0, 0}, said{1, 1, 0, 1, 1, 0, 0};
  const Scores two = scores_of_classes(labels, said, 2);
  ASSERT_EQ(two.size(), 3u);
  EXPECT_EQ(two[0], (std::pair<std::string, double>("accuracy", 4.0 / 7)));
  EXPECT_EQ(two[1].first, "f1");
  EXPECT_DOUBLE_EQ(two[1].second, 2 * 2.0 / (2 * 2 + 2 + 1));
  EXPECT_EQ(two[2].first, "matthews_correlation");
  const Scores three = scores_of_classes(Numbers{0, 1, 2, 2}, Numbers{0, 2, 2, 2}, 3);
  EXPECT_DOUBLE_EQ(three[1].second, (1 + 0 + 0.8) / 3);
  for (const auto& [name, value] : scores_of_classes(Numbers{0, 1}, Numbers{0, kNoScore}, 2))
    EXPECT_TRUE(std::isnan(value)) << name;
  const Numbers x{1, 2, 2, 4, 5}, y{3, 1, 4, 1, 5};
  const Scores numbers = scores_of_numbers(x, y);
  EXPECT_EQ(numbers[0], (std::pair<std::string, double>("pearson", pearson(x, y))));
  EXPECT_EQ(numbers[1], (std::pair<std::string, double>("spearmanr", spearman(x, y))));
  EXPECT_TRUE(std::isnan(scores_of_numbers(x, Numbers{3, 1, kNoScore, 1, 5})[1].second));
  EXPECT_TRUE(std::isnan(scores_of_numbers(Numbers{1}, Numbers{1})[0].second));
}

}  // namespace
}  // namespace megalith::metrics

// SPDX-License-Identifier: Apache-2.0
// How well classes and numbers are predicted; equal to scikit-learn's and SciPy's definitions.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace megalith::metrics {

/// All take as many labels as predictions, at least one (correlations: two). A label is a class's
/// number.
double accuracy(std::span<const int64_t> labels, std::span<const int64_t> predictions);
/// 2 TP / (2 TP + FP + FN) of the class `positive`; 0 where that is 0 / 0.
double f1(std::span<const int64_t> labels, std::span<const int64_t> predictions,
          int64_t positive = 1);
/// The mean of f1() over all classes that occur among either.
double macro_f1(std::span<const int64_t> labels, std::span<const int64_t> predictions);
/// Matthews' correlation (1975), of two classes or more (Gorodkin 2004); 0 where it is 0 / 0.
double matthews(std::span<const int64_t> labels, std::span<const int64_t> predictions);

/// NaN where either side is constant.
double pearson(std::span<const double> x, std::span<const double> y);
/// Pearson's of the ranks, equal ones their mean.
double spearman(std::span<const double> x, std::span<const double> y);

/// Numbers by the names that GLUE's have, the first the one to compare by.
using Scores = std::vector<std::pair<std::string, double>>;
inline constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();
bool are_finite(std::span<const double> values);
/// accuracy; f1, of class 1 where there are two classes, else macro_f1; matthews_correlation. All
/// NaN where a prediction is not finite.
Scores scores_of_classes(std::span<const double> labels, std::span<const double> predictions,
                         int64_t classes);
/// pearson and spearmanr, both NaN where fewer than two are compared or a prediction is not finite.
Scores scores_of_numbers(std::span<const double> labels, std::span<const double> predictions);

}  // namespace megalith::metrics

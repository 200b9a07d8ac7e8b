// SPDX-License-Identifier: Apache-2.0
#include "metrics/classification.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/check.h"

namespace megalith::metrics {

double accuracy(std::span<const int64_t> labels, std::span<const int64_t> predictions) {
  MEGA_CHECK(labels.size() == predictions.size() && !labels.empty());
  int64_t right = 0;
  for (size_t i = 0; i < labels.size(); ++i) right += labels[i] == predictions[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

double f1(std::span<const int64_t> labels, std::span<const int64_t> predictions, int64_t positive) {
  MEGA_CHECK(labels.size() == predictions.size() && !labels.empty());
  int64_t both = 0, either = 0;  // true positives; of labels and of predictions
  for (size_t i = 0; i < labels.size(); ++i) {
    const bool is = labels[i] == positive, said = predictions[i] == positive;
    both += is && said ? 1 : 0;
    either += (is ? 1 : 0) + (said ? 1 : 0);
  }
  return either == 0 ? 0 : 2 * static_cast<double>(both) / static_cast<double>(either);
}

double macro_f1(std::span<const int64_t> labels, std::span<const int64_t> predictions) {
  std::set<int64_t> classes(labels.begin(), labels.end());
  classes.insert(predictions.begin(), predictions.end());
  double sum = 0;
  for (const int64_t one : classes) sum += f1(labels, predictions, one);
  return sum / static_cast<double>(classes.size());
}

double matthews(std::span<const int64_t> labels, std::span<const int64_t> predictions) {
  MEGA_CHECK(labels.size() == predictions.size() && !labels.empty());
  std::map<int64_t, std::pair<double, double>> counts;  // of labels, of predictions
  double right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    counts[labels[i]].first += 1;
    counts[predictions[i]].second += 1;
    right += labels[i] == predictions[i] ? 1 : 0;
  }
  const auto n = static_cast<double>(labels.size());
  double together = right * n, of_labels = n * n, of_predictions = n * n;
  for (const auto& [one, count] : counts) {
    together -= count.first * count.second;
    of_labels -= count.first * count.first;
    of_predictions -= count.second * count.second;
  }
  const double product = of_labels * of_predictions;
  return product == 0 ? 0 : together / std::sqrt(product);
}

double pearson(std::span<const double> x, std::span<const double> y) {
  MEGA_CHECK(x.size() == y.size() && x.size() > 1);
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (xx == 0 || yy == 0) return kNoScore;
  return std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0);
}

namespace {

std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> result(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    // Places begin + 1 to end share their mean.
    const double rank = static_cast<double>(begin + 1 + end) / 2;
    for (; begin < end; ++begin) result[order[begin]] = rank;
  }
  return result;
}

}  // namespace

double spearman(std::span<const double> x, std::span<const double> y) {
  return pearson(ranks(x), ranks(y));
}

bool are_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
}

Scores scores_of_classes(std::span<const double> labels, std::span<const double> predictions,
                         int64_t classes) {
  if (!are_finite(predictions))
    return {{"accuracy", kNoScore}, {"f1", kNoScore}, {"matthews_correlation", kNoScore}};
  const auto numbers = [](std::span<const double> values) {
    std::vector<int64_t> made(values.size());
    std::ranges::transform(values, made.begin(), [](double x) { return static_cast<int64_t>(x); });
    return made;
  };
  const std::vector<int64_t> right = numbers(labels), said = numbers(predictions);
  return {{"accuracy", accuracy(right, said)},
          {"f1", classes == 2 ? f1(right, said) : macro_f1(right, said)},
          {"matthews_correlation", matthews(right, said)}};
}

Scores scores_of_numbers(std::span<const double> labels, std::span<const double> predictions) {
  const bool comparable = labels.size() > 1 && are_finite(predictions);
  return {{"pearson", comparable ? pearson(labels, predictions) : kNoScore},
          {"spearmanr", comparable ? spearman(labels, predictions) : kNoScore}};
}

}  // namespace megalith::metrics

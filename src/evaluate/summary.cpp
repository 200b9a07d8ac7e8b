// SPDX-License-Identifier: Apache-2.0
// From the values of documents to the numbers that are reported.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "evaluate/judgement.h"
#include "metrics/classification.h"
#include "metrics/statistics.h"

namespace megalith::evaluate {
namespace {

std::vector<double> numbers_of(std::span<const MetricValue> values) {
  std::vector<double> numbers;
  for (const MetricValue& value : values) numbers.push_back(value.value);
  return numbers;
}

double weighted(std::span<const MetricValue> values) {
  std::vector<metrics::Weighted> sums;
  for (const MetricValue& value : values) sums.push_back({value.value, value.second});
  return metrics::weighted_mean(sums);
}

/// The classes of both sides.
struct Classes {
  std::vector<int64_t> right, chosen;
  explicit Classes(size_t size) : right(size), chosen(size) {}
  void set(size_t i, const MetricValue& value) {
    right[i] = static_cast<int64_t>(value.value);
    chosen[i] = static_cast<int64_t>(value.second);
  }
  double score(tasks::Aggregation aggregation) const {
    return aggregation == tasks::Aggregation::f1 ? metrics::f1(right, chosen)
                                                 : metrics::matthews(right, chosen);
  }
};

double value_of(tasks::Aggregation aggregation, std::span<const MetricValue> values) {
  switch (aggregation) {
    case tasks::Aggregation::perplexity:
      return metrics::perplexity(numbers_of(values));
    case tasks::Aggregation::weighted_perplexity:
      return std::exp(-weighted(values));
    case tasks::Aggregation::bits_per_byte:
      return -weighted(values) / std::numbers::ln2;
    case tasks::Aggregation::nats_per_byte:
      return -weighted(values);
    case tasks::Aggregation::median:
      return metrics::median(numbers_of(values));
    case tasks::Aggregation::f1:
    case tasks::Aggregation::mcc: {
      Classes classes(values.size());
      for (size_t i = 0; i < values.size(); ++i) classes.set(i, values[i]);
      return classes.score(aggregation);
    }
    default:
      return metrics::mean(numbers_of(values));
  }
}

/// Of a statistic without a formula.
std::optional<double> bootstrapped(tasks::Aggregation aggregation,
                                   std::span<const MetricValue> values, int64_t resamples,
                                   ThreadPool& pool) {
  const auto n = static_cast<uint32_t>(values.size());
  const std::vector<double> numbers = numbers_of(values);
  const auto drawn_classes = [&](std::span<const uint32_t> drawn) {
    Classes classes(drawn.size());
    for (size_t i = 0; i < drawn.size(); ++i) classes.set(i, values[drawn[i]]);
    return classes.score(aggregation);
  };
  const auto drawn_median = [&](std::span<const uint32_t> drawn) {
    std::vector<double> some;
    for (const uint32_t i : drawn) some.push_back(numbers[i]);
    return metrics::median(some);
  };
  const auto drawn_mean = [&](std::span<const uint32_t> drawn) {
    double sum = 0;
    for (const uint32_t i : drawn) sum += numbers[i];
    const double mean = sum / static_cast<double>(drawn.size());
    return aggregation == tasks::Aggregation::perplexity ? std::exp(-mean) : mean;
  };
  if (aggregation == tasks::Aggregation::f1 || aggregation == tasks::Aggregation::mcc)
    return metrics::bootstrap_error(n, resamples, pool, drawn_classes);
  if (aggregation == tasks::Aggregation::median)
    return metrics::bootstrap_error(n, resamples, pool, drawn_median);
  return metrics::bootstrap_error(n, resamples, pool, drawn_mean);
}

}  // namespace

Summary summarize(tasks::Aggregation aggregation, std::span<const MetricValue> values,
                  int64_t resamples, ThreadPool& pool) {
  Summary summary{.value = value_of(aggregation, values), .error = {}};
  if (resamples <= 0 || values.size() < 2) return summary;
  switch (aggregation) {
    case tasks::Aggregation::mean:
      summary.error = metrics::mean_error(numbers_of(values));
      break;
    case tasks::Aggregation::weighted_perplexity:
    case tasks::Aggregation::bits_per_byte:
    case tasks::Aggregation::nats_per_byte:
    case tasks::Aggregation::brier_score:
      break;
    default:
      summary.error = bootstrapped(aggregation, values, resamples, pool);
  }
  return summary;
}

}  // namespace megalith::evaluate

// SPDX-License-Identifier: Apache-2.0
#include "metrics/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "metrics/python_random.h"

namespace megalith::metrics {
namespace {

constexpr int64_t kRun = 1000;  // resamples of one seed

}  // namespace

double mean(std::span<const double> values) {
  MEGA_CHECK(!values.empty());
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double sample_deviation(std::span<const double> values) {
  MEGA_CHECK(values.size() > 1);
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double mean_error(std::span<const double> values) {
  return sample_deviation(values) / std::sqrt(static_cast<double>(values.size()));
}

double median(std::span<const double> values) {
  MEGA_CHECK(!values.empty());
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double perplexity(std::span<const double> log_probabilities) {
  return std::exp(-mean(log_probabilities));
}

double weighted_mean(std::span<const Weighted> values) {
  Weighted total;
  for (const Weighted& value : values) {
    total.sum += value.sum;
    total.weight += value.weight;
  }
  return total.sum / total.weight;
}

std::optional<double> bootstrap_error(uint32_t n, int64_t resamples, ThreadPool& pool,
                                      Statistic statistic) {
  MEGA_CHECK(n > 0);
  const int64_t run = std::min(kRun, resamples);
  if (run < 1) return {};
  const int64_t runs = resamples / run;
  if (runs * run < 2) return {};
  std::vector<double> found(static_cast<size_t>(runs * run));
  pool.for_range(runs, 1, [&](Range range, int) {
    std::vector<uint32_t> drawn(n);
    for (int64_t i = range.begin; i < range.end; ++i) {
      PythonRandom random(static_cast<uint64_t>(i));
      for (int64_t j = 0; j < run; ++j) {
        random.choices(n, drawn);
        found[static_cast<size_t>(i * run + j)] = statistic(drawn);
      }
    }
  });
  return sample_deviation(found);
}

double pooled_error(std::span<const double> errors, std::span<const int64_t> sizes) {
  MEGA_CHECK(!errors.empty() && errors.size() == sizes.size());
  double sum = 0, total = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    const auto size = static_cast<double>(sizes[i]);
    sum += (size - 1) * (errors[i] * errors[i]) * size;
    total += size;
  }
  return std::sqrt(sum / (total - static_cast<double>(sizes.size())) / total);
}

namespace {

/// P(at most `k` heads or at least n - k) of n throws; k <= n / 2.
double two_sided_sign_test(int64_t k, int64_t n) {
  if (n == 0) return 1;
  double sum = 0;
  const auto whole = static_cast<double>(n);
  for (int64_t i = 0; i <= k; ++i) {
    const auto heads = static_cast<double>(i);
    sum += std::exp(std::lgamma(whole + 1) - std::lgamma(heads + 1) -
                    std::lgamma(whole - heads + 1) - whole * std::log(2.0));
  }
  return std::min(1.0, 2 * sum);
}

}  // namespace

PairedDifference paired_difference(std::span<const double> first, std::span<const double> second) {
  MEGA_CHECK(first.size() == second.size() && first.size() > 1);
  PairedDifference result;
  std::vector<double> differences(first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    differences[i] = second[i] - first[i];
    result.first_better += first[i] > second[i] ? 1 : 0;
    result.second_better += second[i] > first[i] ? 1 : 0;
  }
  result.difference = mean(differences);
  result.error = mean_error(differences);
  result.p = two_sided_sign_test(std::min(result.first_better, result.second_better),
                                 result.first_better + result.second_better);
  return result;
}

}  // namespace megalith::metrics

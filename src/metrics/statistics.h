// SPDX-License-Identifier: Apache-2.0
// Numbers of a whole set from those of its examples, and their standard errors. Sums run from the
// first example to the last in f64, as Python's sum() up to 3.11 does, so that results are those of
// lm-eval to the last digit that the values allow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/function_ref.h"
#include "base/thread_pool.h"

namespace megalith::metrics {

/// Of at least one value.
double mean(std::span<const double> values);
/// The square root of the variance with n - 1; of at least two values.
double sample_deviation(std::span<const double> values);
/// sample_deviation / sqrt(n).
double mean_error(std::span<const double> values);
/// The value in the middle of the sorted ones (the upper of two).
double median(std::span<const double> values);
/// Of log-probabilities of documents: exp(-mean).
double perplexity(std::span<const double> log_probabilities);

/// A sum of log-probabilities, and the words or bytes that it is over.
struct Weighted {
  double sum = 0;
  double weight = 0;
};
/// sum of sums / sum of weights.
double weighted_mean(std::span<const Weighted> values);

/// A statistic of a resample: the numbers of the examples drawn.
using Statistic = FunctionRef<double(std::span<const uint32_t> drawn)>;
/// The bootstrap's standard error of a statistic of n examples (Efron 1979): the deviation over
/// `resamples`, drawn as lm-eval does: in runs of 1,000 (fewer if there are fewer in all; what does
/// not fill a run is left out), run i from Python's generator with seed i. `statistic` is called
/// from all threads of the pool; the result does not depend on their number. Nothing for fewer than
/// two resamples.
std::optional<double> bootstrap_error(uint32_t n, int64_t resamples, ThreadPool& pool,
                                      Statistic statistic);

/// Of a group of sets, from the errors of their means and their sizes: sqrt of the pooled variance
/// over all examples.
double pooled_error(std::span<const double> errors, std::span<const int64_t> sizes);

/// The mean difference of two models on the same examples: its error, the share of examples on
/// which either is better, and the probability that a fair coin would treat them so unequally
/// (exact two-sided sign test of those that differ; of right and wrong answers that is McNemar's,
/// 1947).
struct PairedDifference {
  double difference = 0;                        // mean of second - first
  double error = 0;                             // of that mean
  int64_t first_better = 0, second_better = 0;  // the larger number is the better one
  double p = 1;
};
/// At least two examples, as many of each.
PairedDifference paired_difference(std::span<const double> first, std::span<const double> second);

}  // namespace megalith::metrics

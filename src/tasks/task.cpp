// SPDX-License-Identifier: Apache-2.0
#include "tasks/task.h"

#include <array>

namespace megalith::tasks {
namespace {

constexpr std::array<std::string_view, 4> kTypes = {"loglikelihood", "multiple_choice",
                                                    "loglikelihood_rolling", "generate_until"};
constexpr std::array<std::string_view, 12> kMetrics = {
    "acc", "acc_norm",    "acc_bytes",  "acc_mutual_info", "exact_match",     "f1",
    "mcc", "brier_score", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"};
constexpr std::array<std::string_view, 10> kAggregations = {
    "mean",          "median",        "nanmean",     "perplexity", "weighted_perplexity",
    "bits_per_byte", "nats_per_byte", "brier_score", "f1",         "matthews_corrcoef"};

template <typename Enum, size_t n>
std::optional<Enum> named(const std::array<std::string_view, n>& names, std::string_view name) {
  for (size_t i = 0; i < n; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return {};
}

}  // namespace

std::string_view name_of(Profile profile) { return profile == Profile::nemo ? "nemo" : "lm-eval"; }
std::string_view name_of(OutputType type) { return kTypes[static_cast<size_t>(type)]; }
std::string_view name_of(Metric metric) { return kMetrics[static_cast<size_t>(metric)]; }
std::string_view name_of(Aggregation a) { return kAggregations[static_cast<size_t>(a)]; }
std::optional<Metric> metric_named(std::string_view name) { return named<Metric>(kMetrics, name); }
std::optional<Aggregation> aggregation_named(std::string_view name) {
  const auto found = named<Aggregation>(kAggregations, name);
  return found == Aggregation::nats_per_byte ? std::nullopt : found;
}
std::optional<OutputType> output_type_named(std::string_view name) {
  return named<OutputType>(kTypes, name);
}

MetricUse default_use(Metric metric) {
  switch (metric) {
    case Metric::f1:
      return {.metric = metric, .aggregation = Aggregation::f1};
    case Metric::mcc:
      return {.metric = metric, .aggregation = Aggregation::mcc};
    case Metric::brier_score:
      return {metric, Aggregation::brier_score, false};
    case Metric::perplexity:
      return {metric, Aggregation::perplexity, false};
    case Metric::word_perplexity:
    case Metric::byte_perplexity:
      return {metric, Aggregation::weighted_perplexity, false};
    case Metric::bits_per_byte:
      return {metric, Aggregation::bits_per_byte, false};
    default:
      return {.metric = metric};
  }
}

std::vector<MetricUse> default_metrics(OutputType type) {
  switch (type) {
    case OutputType::loglikelihood:
      return {default_use(Metric::perplexity), default_use(Metric::acc)};
    case OutputType::multiple_choice:
      return {default_use(Metric::acc), default_use(Metric::acc_norm)};
    case OutputType::loglikelihood_rolling:
      return {default_use(Metric::word_perplexity), default_use(Metric::byte_perplexity),
              default_use(Metric::bits_per_byte)};
    case OutputType::generate_until:
      break;
  }
  return {default_use(Metric::exact_match)};
}

}  // namespace megalith::tasks

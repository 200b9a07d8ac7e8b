// SPDX-License-Identifier: Apache-2.0
#include "evaluate/sample_comparison.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_fault.h"
#include "base/line_reader.h"

namespace megalith::evaluate {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostLineBytes = int64_t{64} << 20;

struct Sample {
  std::string hashes, where;
  std::vector<std::pair<std::string, double>> values;
};
/// By filter and number of the document.
using Samples = std::map<std::pair<std::string, int64_t>, Sample>;

/// A metric's number; of a pair of a log-probability and its words the first; nothing of others.
std::optional<double> number_of(const Json& value, const std::string& metric) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  const bool is_sum = metric.ends_with("perplexity") || metric == "bits_per_byte";
  if (is_sum && value.is_array() && !value.empty() && value[0].is_number())
    return value[0].get<double>();
  return {};
}

void take(std::string_view line, const std::string& where, Samples& samples) {
  if (const auto fault = json_fault(line)) throw UserError("{}: {}", where, *fault);
  const Json json = Json::parse(line);
  const auto text = [&](const char* key) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_string())
      throw UserError("{}: has no \"{}\", which samples have", where, key);
    return json[key].get<std::string>();
  };
  Sample sample{.hashes = {}, .where = where, .values = {}};
  for (const char* const hash : {"doc_hash", "prompt_hash", "target_hash"})
    sample.hashes += text(hash) + " ";
  if (!json.contains("doc_id") || !json["doc_id"].is_number_integer() ||
      !json.contains("metrics") || !json["metrics"].is_array())
    throw UserError("{}: has no \"doc_id\" or no list \"metrics\"", where);
  for (const Json& name : json["metrics"]) {
    if (!name.is_string() || !json.contains(name.get<std::string>())) continue;
    const auto metric = name.get<std::string>();
    if (const auto number = number_of(json[metric], metric))
      sample.values.emplace_back(metric, *number);
  }
  const auto key = std::pair(text("filter"), json["doc_id"].get<int64_t>());
  if (!samples.emplace(key, std::move(sample)).second)
    throw UserError("{}: document {} is there twice", where, key.second);
}

Samples read_samples(const std::filesystem::path& file) {
  Samples samples;
  LineReader reader(file, kMostLineBytes);
  const auto where = [&](int64_t line) { return fmt::format("{}:{}", file.string(), line); };
  for (std::string_view line; reader.next(line);)
    if (!line.empty()) take(line, where(reader.number()), samples);
  if (reader.is_too_long())
    throw UserError("{}: a line longer than {} bytes", where(reader.number() + 1), kMostLineBytes);
  if (!reader.rest().empty()) take(reader.rest(), where(reader.number() + 1), samples);
  return samples;
}

}  // namespace

std::vector<MetricComparison> compare_samples(const std::filesystem::path& first,
                                              const std::filesystem::path& second) {
  const Samples one = read_samples(first), other = read_samples(second);
  if (one.size() != other.size() || one.empty())
    throw UserError("{} has {} samples and {} has {}; compare runs over the same documents",
                    first.string(), one.size(), second.string(), other.size());
  // By filter and metric.
  std::map<std::pair<std::string, std::string>, std::pair<std::vector<double>, std::vector<double>>>
      values;
  for (const auto& [key, sample] : one) {
    const auto found = other.find(key);
    if (found == other.end() || found->second.hashes != sample.hashes)
      throw UserError("{} asks what {} does not: document {} differs", sample.where,
                      second.string(), key.second);
    for (const auto& [metric, value] : sample.values) {
      for (const auto& [name, against] : found->second.values) {
        if (name != metric) continue;
        auto& lists = values[{key.first, metric}];
        lists.first.push_back(value);
        lists.second.push_back(against);
      }
    }
  }
  std::vector<MetricComparison> results;
  for (const auto& [key, lists] : values) {
    if (lists.first.size() < 2) continue;
    metrics::PairedDifference paired = metrics::paired_difference(lists.first, lists.second);
    if (key.second == "brier_score") std::swap(paired.first_better, paired.second_better);
    results.push_back({.metric = key.second,
                       .filter = key.first,
                       .first = metrics::mean(lists.first),
                       .second = metrics::mean(lists.second),
                       .paired = paired,
                       .examples = std::ssize(lists.first)});
  }
  if (results.empty()) throw UserError("the samples have no two documents with a common metric");
  return results;
}

}  // namespace megalith::evaluate

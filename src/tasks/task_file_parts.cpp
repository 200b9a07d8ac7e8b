// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_file_parts.h"

#include <algorithm>
#include <array>

namespace megalith::tasks {

MetricUse metric_of(const YamlNode& node) {
  MetricUse use;
  bool has_metric = false;
  for (const auto& [key, value] : node.entries()) {
    if (key != "metric") continue;
    const auto found = metric_named(value.text());
    if (!found) value.fail("the metric {} is not supported", value.text());
    use = default_use(*found);
    has_metric = true;
  }
  if (!has_metric) node.fail("has no \"metric\"");
  for (const auto& [key, value] : node.entries()) {
    const bool of_match = use.metric == Metric::exact_match;
    if (key == "metric") continue;
    if (key == "aggregation") {
      const auto found = aggregation_named(value.text());
      if (!found) value.fail("the aggregation {} is not supported", value.text());
      use.aggregation = *found;
    } else if (key == "higher_is_better") {
      use.higher_is_better = value.truth();
    } else if (of_match && key == "ignore_case") {
      use.match.ignore_case = value.truth();
    } else if (of_match && key == "ignore_punctuation") {
      use.match.ignore_punctuation = value.truth();
    } else if (of_match && key == "ignore_numbers") {
      use.match.ignore_numbers = value.truth();
    } else if (of_match && key == "regexes_to_ignore") {
      use.match.regexes_to_ignore = value.texts();
    } else {
      value.fail("is not supported of the metric {}", name_of(use.metric));
    }
  }
  return use;
}

namespace {

FilterStep step_of(const YamlNode& node) {
  using Kind = FilterStep::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 6> kKinds = {
      {{"regex", Kind::regex},
       {"take_first", Kind::take_first},
       {"remove_whitespace", Kind::remove_whitespace},
       {"lowercase", Kind::lowercase},
       {"uppercase", Kind::uppercase},
       {"map", Kind::map}}};
  FilterStep step;
  std::string function;
  for (const auto& [key, value] : node.entries())
    if (key == "function") function = value.text();
  const auto kind = std::ranges::find(kKinds, function, &decltype(kKinds)::value_type::first);
  if (kind == kKinds.end()) node.fail("the filter {} is not supported", function);
  step.kind = kind->second;
  for (const auto& [key, value] : node.entries()) {
    const bool of_regex = step.kind == Kind::regex, of_map = step.kind == Kind::map;
    if (key == "function") continue;
    if (of_regex && key == "regex_pattern") {
      step.pattern = value.text();
    } else if (of_regex && key == "group_select" && value.whole()) {
      step.group_select = *value.whole();
    } else if (of_regex && key == "fallback") {
      step.fallback = value.text();
    } else if (of_map && key == "mapping_dict") {
      for (const auto& [from, to] : value.entries()) step.mapping.emplace_back(from, to.text());
    } else if (of_map && key == "default_value") {
      step.default_value = value.text();
    } else {
      value.fail("is not supported of the filter {}", function);
    }
  }
  return step;
}

}  // namespace

Filter filter_of(const YamlNode& node) {
  Filter filter;
  for (const auto& [key, value] : node.entries()) {
    if (key == "name") {
      filter.name = value.text();
    } else if (key == "filter") {
      for (const YamlNode& step : value.items()) filter.steps.push_back(step_of(step));
    } else {
      value.fail("is not supported of a filter");
    }
  }
  const auto takes = [](const FilterStep& s) { return s.kind == FilterStep::Kind::take_first; };
  if (std::ranges::none_of(filter.steps, takes))
    node.fail("a filter without the step take_first leaves a list, which is not supported");
  return filter;
}

Generation generation_of(const YamlNode& node, bool& has_until) {
  Generation generation;
  for (const auto& [key, value] : node.entries()) {
    const bool is_length = key == "max_gen_toks" || key == "max_new_tokens" ||
                           key == "max_tokens" || key == "max_completion_tokens";
    if (key == "until") {
      generation.until = value.texts();
      has_until = true;
    } else if (is_length && value.whole() && *value.whole() > 0) {
      generation.max_tokens = *value.whole();
    } else if (key == "do_sample") {
      if (value.truth()) value.fail("answers that are drawn are not supported");
    } else if (key == "temperature") {
      if (value.number().value_or(1) != 0) value.fail("answers that are drawn are not supported");
    } else {
      value.fail("is not supported");
    }
  }
  return generation;
}

Part part_of(const YamlNode& node, const std::string& name) {
  if (const auto number = node.whole()) return Part(*number);
  if (node.is_list()) return Part(node.texts());
  if (node.is_map()) {
    std::vector<std::string> values;
    for (const auto& [key, value] : node.entries()) values.push_back(value.text());
    return Part(std::move(values));
  }
  try {
    return Part(node.text(), name);
  } catch (const UserError& error) {
    node.fail("{}", error.what());
  }
}

}  // namespace megalith::tasks

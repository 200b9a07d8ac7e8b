// SPDX-License-Identifier: Apache-2.0
// Field values and constraints as text.
#include "settings/field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace megalith::settings {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// fmt's default form of a double is the shortest that reads back to the same bits.
std::string number(double value) { return fmt::format("{}", value); }

struct ToText {
  std::string operator()(const int64_t* value) const { return fmt::format("{}", *value); }
  std::string operator()(const double* value) const { return number(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::string* value) const { return quoted(*value); }
  std::string operator()(const std::optional<double>* value) const {
    return value->has_value() ? number(**value) : "null";
  }
  std::string operator()(const std::optional<bool>* value) const {
    return value->has_value() ? (**value ? "true" : "false") : "null";
  }
  std::string operator()(const std::vector<std::string>* value) const {
    std::vector<std::string> items;
    for (const std::string& item : *value) items.push_back(quoted(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  std::string operator()(const std::vector<double>* value) const {
    return fmt::format("[{}]", fmt::join(*value, ", "));
  }
  std::string operator()(const EnumReference& value) const {
    return std::string(value.names[value.get(value.value)]);
  }
};

struct ToType {
  std::string operator()(const int64_t*) const { return "integer"; }
  std::string operator()(const double*) const { return "number"; }
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const std::string*) const { return "text"; }
  std::string operator()(const std::optional<double>*) const { return "number or null"; }
  std::string operator()(const std::optional<bool>*) const { return "true, false or null"; }
  std::string operator()(const std::vector<std::string>*) const { return "list of texts"; }
  std::string operator()(const std::vector<double>*) const { return "list of numbers"; }
  std::string operator()(const EnumReference& value) const {
    if (value.names.size() == 1) return std::string(value.names[0]);
    return fmt::format("one of {}", fmt::join(value.names, ", "));
  }
};

}  // namespace

std::string Constraint::text() const {
  const bool has_low = std::isfinite(low), has_high = std::isfinite(high);
  if (has_low && has_high)
    return fmt::format("{} {} {} {}", low_open ? "above" : "from", low,
                       high_open ? "to below" : "to", high);
  if (has_low) return fmt::format("{} {}", low_open ? "above" : "at least", low);
  if (has_high) return fmt::format("{} {}", high_open ? "below" : "at most", high);
  return "";
}

std::string value_text(const ValueReference& value) { return std::visit(ToText{}, value); }
std::string type_text(const ValueReference& value) { return std::visit(ToType{}, value); }

std::string join_path(std::string_view prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
}

}  // namespace megalith::settings

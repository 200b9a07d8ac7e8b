// SPDX-License-Identifier: Apache-2.0
#include "families/foreign_table.h"

#include <algorithm>
#include <charconv>

namespace megalith::models {

std::optional<int64_t> layer_of(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos)
    return pattern == name ? std::optional<int64_t>(-1) : std::nullopt;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after)) {
    return std::nullopt;
  }
  const std::string_view middle =
      name.substr(before.size(), name.size() - before.size() - after.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(middle.data(), middle.data() + middle.size(), number);
  if (error != std::errc() || end != middle.data() + middle.size() || number < 0)
    return std::nullopt;
  return number;
}

std::vector<std::string> file_names(const ForeignTable& table, const std::string& name) {
  std::vector<std::string> names = {name};
  if (name.starts_with(table.prefix)) names.push_back(name.substr(table.prefix.size()));
  for (const ForeignAlias& alias : table.aliases) {
    if (alias.name == name) names.emplace_back(alias.other);
    if (!alias.name.starts_with('*') || !name.ends_with(alias.name.substr(1))) continue;
    for (size_t i = 0, known = names.size(); i < known; ++i) {
      const std::string begin = names[i].substr(0, names[i].size() - (alias.name.size() - 1));
      names.push_back(begin + std::string(alias.other.substr(1)));
    }
  }
  return names;
}

std::string_view head_name(const ForeignTable& table) {
  const auto row = std::ranges::find(table.rows, "head.weight", &ForeignRow::ours);
  return row == table.rows.end() ? std::string_view() : row->pieces[0].name;
}

bool is_buffer(const ForeignTable& table, std::string_view foreign_name) {
  return std::ranges::any_of(table.buffers, [&](std::string_view pattern) {
    if (layer_of(pattern, foreign_name)) return true;
    return pattern.starts_with(table.prefix) &&
           layer_of(pattern.substr(table.prefix.size()), foreign_name).has_value();
  });
}

}  // namespace megalith::models

// SPDX-License-Identifier: Apache-2.0
// Text, then tree, then overrides, then fields, then rules; every fault of every stage in one
// error.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "config/recipe.h"
#include "settings/override.h"
#include "settings/reader.h"
#include "settings/tree.h"

namespace megalith::config {

using settings::apply_override;
using settings::describe;
using settings::drop_replaced;
using settings::Node;
using settings::one_line;
using settings::parse_tree;
using settings::Positions;
using settings::read_fields;
namespace {

constexpr int64_t kLargestFile = 1 << 20;

/// Of these a recipe gives one.
constexpr std::array<std::string_view, 4> kLengths{"steps", "tokens", "epochs", "hours"};

std::vector<Override> as_set(std::span<const std::string> texts) {
  std::vector<Override> overrides;
  for (const std::string& text : texts) overrides.push_back({text});
  return overrides;
}

/// Rules speak only of fields that are sound by themselves, and get the place of the first field
/// involved that was written somewhere.
void add_rule_faults(const Recipe& recipe, const Positions& positions, std::vector<Fault>& faults) {
  std::set<std::string> unsound;
  for (const Fault& fault : faults) unsound.insert(fault.path);
  for (Fault fault : validate(recipe)) {
    std::vector<std::string> paths = {fault.path};
    paths.insert(paths.end(), fault.involved.begin(), fault.involved.end());
    if (std::any_of(paths.begin(), paths.end(),
                    [&](const std::string& path) { return unsound.contains(path); }))
      continue;
    for (const std::string& path : paths)
      if (const auto found = positions.find(path); found != positions.end()) {
        fault.at = found->second;
        break;
      }
    faults.push_back(std::move(fault));
  }
}

/// In the order of the file, then of the command line, then what is missing.
void sort_faults(std::vector<Fault>& faults) {
  const auto order = [](const Fault& fault) {
    const int group = fault.at.line > 0 ? 0 : fault.at.where.empty() ? 2 : 1;
    return std::tuple(group, fault.at.line, fault.at.column);
  };
  std::stable_sort(faults.begin(), faults.end(),
                   [&](const Fault& a, const Fault& b) { return order(a) < order(b); });
}

}  // namespace

Recipe parse_recipe(std::string_view text, std::string_view name,
                    std::span<const std::string> overrides, const CompleteModel& complete) {
  return parse_recipe(text, name, as_set(overrides), complete);
}

Recipe parse_recipe(std::string_view text, std::string_view name,
                    const std::vector<Override>& overrides, const CompleteModel& complete) {
  std::vector<Fault> faults;
  Node root = parse_tree(text, name, faults);
  if (root.kind == Node::Kind::null) root.kind = Node::Kind::map;  // only comments and "---"
  if (root.kind != Node::Kind::map)
    throw UserError("{}: a recipe is a map of sections, not {}", name, describe(root));
  for (size_t i = 0; i < overrides.size(); ++i)
    apply_override(root, overrides[i], static_cast<int>(i) + 1, faults);
  drop_replaced(root, "train", kLengths);
  Recipe recipe;
  Positions positions;
  read_fields(
      root, [&](FieldVisitor& v) { recipe.visit(v); }, keys(), positions, faults);
  if (complete && faults.empty()) complete(recipe.model);
  add_rule_faults(recipe, positions, faults);
  if (!faults.empty()) {
    sort_faults(faults);
    throw UserError("{}", one_line(faults));
  }
  resolve(recipe);
  return recipe;
}

Recipe load_recipe(const std::filesystem::path& path, const std::vector<Override>& overrides,
                   const CompleteModel& complete) {
  return parse_recipe(read_file(path, kLargestFile), path.string(), overrides, complete);
}

}  // namespace megalith::config

// SPDX-License-Identifier: Apache-2.0
#include "adapters/module_names.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "grammar_automata/code_automaton.h"

namespace megalith::adapters {
namespace {

/// Whether `name` is `end`, or ends with it behind a point.
bool has_end(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  return name.size() == end.size() || name[name.size() - end.size() - 1] == '.';
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t point = name.find('.');
    parts.push_back(name.substr(0, point));
    if (point == std::string_view::npos) return parts;
    name.remove_prefix(point + 1);
  }
}

std::optional<int64_t> number_in(std::string_view part) {
  int64_t number = 0;
  const char* const end = part.data() + part.size();
  const auto [stopped, error] = std::from_chars(part.data(), end, number);
  if (error != std::errc() || stopped != end || number < 0) return std::nullopt;
  return number;
}

}  // namespace

NamePattern::NamePattern(std::string_view expression, const std::string& where,
                         grammars::WorkBudget& budget) {
  try {
    automaton_ = std::make_shared<const grammars::CodeAutomaton>(
        grammars::compile_regex(expression, false, budget));
  } catch (const UserError& error) {
    throw UserError("{} \"{}\": {}", where, expression.substr(0, 200), error.what());
  }
}

NamePattern NamePattern::of_end(std::string_view expression, const std::string& where,
                                grammars::WorkBudget& budget) {
  return {"(?:.*\\.)?(?:" + std::string(expression) + ")", where, budget};
}

bool NamePattern::matches(std::string_view name) const {
  uint32_t at = 0;
  for (const char c : name) {
    const auto& edges = automaton_->nodes[at].edges;
    const auto edge = std::ranges::find_if(edges, [c](const grammars::CodeEdge& each) {
      return each.codes.contains(static_cast<uint8_t>(c));
    });
    if (edge == edges.end()) return false;
    at = edge->target;
  }
  return automaton_->nodes[at].is_end;
}

ModuleNames ModuleNames::all() {
  ModuleNames names;
  names.all_ = true;
  return names;
}

ModuleNames ModuleNames::listed(std::vector<std::string> names) {
  ModuleNames made;
  made.names_ = std::move(names);
  return made;
}

ModuleNames ModuleNames::matching(NamePattern pattern) {
  ModuleNames made;
  made.pattern_ = std::move(pattern);
  return made;
}

bool ModuleNames::contains(std::string_view module) const {
  if (all_) return true;
  if (pattern_) return pattern_->matches(module);
  return std::ranges::any_of(names_, [&](const auto& name) { return has_end(module, name); });
}

bool ModuleNames::lists(std::string_view module) const {
  return std::ranges::find(names_, module) != names_.end();
}

std::optional<int64_t> layer_number(std::string_view module,
                                    const std::vector<std::string>& patterns) {
  const std::vector<std::string_view> parts = parts_of(module);
  // A number is a layer's only if something stands behind it.
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    const std::optional<int64_t> number = number_in(parts[i]);
    if (!number) continue;
    const std::string_view before =
        module.substr(0, static_cast<size_t>(parts[i].data() - module.data()) - 1);
    const bool counts =
        patterns.empty() ? i >= 2 : std::ranges::any_of(patterns, [&](const auto& pattern) {
          return has_end(before, pattern);
        });
    if (counts) return number;
  }
  return std::nullopt;
}

}  // namespace megalith::adapters

// SPDX-License-Identifier: Apache-2.0
// Sets of modules as PEFT writes them: a list of names, each of which stands for the modules that
// are called so or whose last parts are; an expression that whole names match; or all products.
// Expressions come from files: they are automata of bounded size (grammar_automata), never searched
// with steps back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::grammars {
struct CodeAutomaton;
class WorkBudget;
}  // namespace megalith::grammars

namespace megalith::adapters {

/// An expression that names are matched against, from their beginning to their end.
class NamePattern {
 public:
  /// UserError that begins with `where`. All patterns of a file share a budget.
  NamePattern(std::string_view expression, const std::string& where, grammars::WorkBudget& budget);
  /// Of the whole name, or of what stands behind one of its points.
  static NamePattern of_end(std::string_view expression, const std::string& where,
                            grammars::WorkBudget& budget);
  bool matches(std::string_view name) const;

 private:
  std::shared_ptr<const grammars::CodeAutomaton> automaton_;
};

class ModuleNames {
 public:
  ModuleNames() = default;  // none
  static ModuleNames all();
  static ModuleNames listed(std::vector<std::string> names);
  static ModuleNames matching(NamePattern pattern);

  bool contains(std::string_view module) const;
  /// Whether it is in the list under its whole name.
  bool lists(std::string_view module) const;
  bool is_list() const { return !all_ && !pattern_; }

 private:
  bool all_ = false;
  std::vector<std::string> names_;
  std::optional<NamePattern> pattern_;
};

/// The number of the layer that a module is of: the first number in its name that has at least two
/// parts before it, or, with patterns, the first part behind one of them. Nothing where there is
/// none.
std::optional<int64_t> layer_number(std::string_view module,
                                    const std::vector<std::string>& patterns);

}  // namespace megalith::adapters

// SPDX-License-Identifier: Apache-2.0
// Runs the tree of a template. Private to the sources of the renderer and to template.cpp.
//
// Names are looked up from the innermost scope outwards, then among the functions every template
// has. A loop's round, a macro's call and the bodies of `set`, `with`, `filter`, `call` and
// `generation` are scopes; `if` is none. What a scope sets is gone with it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "chat/globals.h"
#include "chat/tree.h"

namespace megalith::chat {

struct Scope {
  std::shared_ptr<Scope> outer;
  std::vector<std::pair<std::string, Value>> names;

  /// The innermost value of the name; null if there is none. Scopes are searched name by name, and
  /// `looked_at` says how many.
  const Value* find(std::string_view name, int64_t& looked_at) const;
  void set(const std::string& name, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

/// A macro with the scope it was made in.
struct Closure {
  const MacroTree* tree;
  ScopePtr scope;
};

class LoopState;

class Renderer {
 public:
  /// `variables` are what the template gets. All live as long as the renderer.
  Renderer(const Dict& variables, const std::tm& now, Budget& budget, bool is_strict);

  std::string render(const TemplateTree& tree);
  /// Where the template was when it failed.
  uint32_t at() const { return at_; }

  /// True if an item passes the filter of a loop.
  bool passes(const Statement& loop, const ScopePtr& outer, const Value& item);

 private:
  enum class Flow : uint8_t { normal, leave, next_round };

  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow run_condition(const Statement& statement);
  Flow run_loop(const Statement& statement);
  Flow run_set_block(const Statement& statement);
  Flow run_filter(const Statement& statement);
  Flow run_with(const Statement& statement);
  void run_call(const Statement& statement);
  Flow run_scoped(const Block& block, const std::vector<std::string>& unset, std::string* into);
  ScopePtr make_scope(const ScopePtr& outer, const std::vector<std::string>& unset);
  void assign(const Target& target, const Value& value);
  void print(std::string_view text);

  Value evaluate(const Expression& expression);
  /// What has no value included, in the strict dialect too.
  Value evaluate_any(const Expression& expression);
  void require_present(const Value& value, bool is_asked) const;
  Value evaluate_operator(const Expression& expression);
  Value evaluate_access(const Expression& expression);
  Value evaluate_compare(const Expression& expression);
  Value evaluate_concat(const Expression& expression);
  Value evaluate_dict(const Expression& expression);
  Value optional_part(const Expression& expression, size_t place);
  Value filtered(const Expression& filters, const Value& innermost);
  Items evaluate_all(const std::vector<ExpressionPtr>& expressions);
  Arguments arguments_of(const Expression& call);
  Value call(const Expression& expression, const Value* caller);
  Value find_name(const std::string& name);
  Value make_macro(const MacroTree& tree);
  Value call_macro(const Closure& closure, const Arguments& arguments);
  void bind_macro(const MacroTree& tree, const Arguments& arguments);

  Budget& budget_;
  bool is_strict_;  // Dialect
  const Dict& variables_;
  World world_;
  ScopePtr scope_;
  std::deque<Closure> closures_;     // of the macros, which values only point to
  std::string* captured_ = nullptr;  // what a macro or block prints; null: the output
  std::string output_;
  uint32_t at_ = 0;
};

}  // namespace megalith::chat

// SPDX-License-Identifier: Apache-2.0
#include "chat/scope_names.h"

#include <unordered_map>

namespace megalith::chat {
namespace {

/// The names of a scope as far as the text has been read.
class Names {
 public:
  /// `outer` is the scope around it; null: this is the template's.
  explicit Names(const Names* outer) : outer_(outer) {}

  /// A name is read, or set in a branch that may not be taken: then it is looked up outside.
  void load(const std::string& name) {
    if (!is_used(name)) is_unset_[name] = false;
  }
  void store(const std::string& name) {
    if (!is_unset_.contains(name)) is_unset_[name] = !(outer_ && outer_->is_used(name));
  }
  /// A parameter, or what a loop sets: it has a value when the scope begins.
  void declare(const std::string& name) { is_unset_[name] = false; }

  std::vector<std::string> unset() const {
    std::vector<std::string> names;
    for (const auto& [name, is_unset] : is_unset_)
      if (is_unset) names.push_back(name);
    return names;
  }

 private:
  bool is_used(const std::string& name) const {
    for (const Names* names = this; names; names = names->outer_)
      if (names->is_unset_.contains(name)) return true;
    return false;
  }

  const Names* outer_;
  std::unordered_map<std::string, bool> is_unset_;  // set before it was read, unknown outside
};

void read(const Expression* expression, Names& names) {
  if (!expression) return;
  if (expression->kind == ExpressionKind::name) names.load(expression->text);
  for (const auto& operand : expression->operands) read(operand.get(), names);
  for (const auto& argument : expression->positional) read(argument.get(), names);
  for (const auto& [unused, argument] : expression->keywords) read(argument.get(), names);
}

enum class Way : uint8_t { set, may_set, declare };

void assign(const Target& target, Way way, Names& names) {
  for (const Target& part : target.parts) assign(part, way, names);
  if (target.is_tuple) return;
  if (way == Way::may_set || !target.attribute.empty())
    names.load(target.name);
  else if (way == Way::declare)
    names.declare(target.name);
  else
    names.store(target.name);
}

/// `way`: how the statements of the block set names.
void read(const Block& block, Way way, Names& names) {
  for (const auto& statement : block) {
    const Statement& s = *statement;
    if (s.kind == StatementKind::macro) {
      way == Way::set ? names.store(s.text) : names.load(s.text);
      continue;
    }
    if (s.kind != StatementKind::set_block) read(s.value.get(), names);
    if (s.kind == StatementKind::set || s.kind == StatementKind::set_block)
      assign(s.target, way, names);
    for (const auto& [unused, value] : s.pairs) read(value.get(), names);
    for (const auto& [test, body] : s.branches) {
      read(test.get(), names);
      read(body, Way::may_set, names);
    }
    if (s.kind == StatementKind::condition) read(s.otherwise, Way::may_set, names);
  }
}

void find_within(Block& block, const Names& names);

/// A scope whose names are known but for those of its body.
std::vector<std::string> find_scope(Block& body, Names names) {
  read(body, Way::set, names);
  find_within(body, names);
  return names.unset();
}

void find_macro(MacroTree& macro, const Names& outer) {
  Names names(&outer);
  for (const std::string& parameter : macro.parameters) names.declare(parameter);
  for (const auto& value : macro.defaults) read(value.get(), names);
  macro.unset = find_scope(macro.body, std::move(names));
}

/// The scopes that begin in a block of a scope all of whose names are known.
void find_within(Block& block, const Names& names) {
  for (const auto& statement : block) {
    Statement& s = *statement;
    for (auto& [unused, body] : s.branches) find_within(body, names);
    if (s.kind == StatementKind::condition) {
      find_within(s.otherwise, names);
      continue;
    }
    if (s.kind == StatementKind::macro || s.kind == StatementKind::call) {
      find_macro(s.macro, names);
      continue;
    }
    Names inner(&names);
    if (s.kind == StatementKind::loop) {
      assign(s.target, Way::declare, inner);
      inner.declare("loop");
      s.unset_otherwise = find_scope(s.otherwise, Names(&names));
    }
    for (const auto& [target, unused] : s.pairs) assign(target, Way::declare, inner);
    s.unset = find_scope(s.body, std::move(inner));
  }
}

}  // namespace

void find_unset_names(TemplateTree& tree) { tree.unset = find_scope(tree.block, Names(nullptr)); }

}  // namespace megalith::chat

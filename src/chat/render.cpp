// SPDX-License-Identifier: Apache-2.0
// Statements.
#include <algorithm>

#include "chat/loop.h"
#include "chat/renderer.h"
#include "chat_values/filters.h"
#include "chat_values/python_text.h"

namespace megalith::chat {

Renderer::Renderer(const Dict& variables, const std::tm& now, Budget& budget, bool is_strict)
    : budget_(budget),
      is_strict_(is_strict),
      variables_(variables),
      scope_(std::make_shared<Scope>()) {
  world_.now = now;
  for (const auto& [name, value] : variables.entries)
    scope_->names.emplace_back(name.bytes(), value);
}

std::string Renderer::render(const TemplateTree& tree) {
  scope_ = make_scope(scope_, tree.unset);
  run(tree.block);
  return std::move(output_);
}

void Renderer::print(std::string_view text) {
  if (captured_) {
    budget_.make(text.size());
    *captured_ += text;
  } else {
    budget_.print(text.size());
    output_ += text;
  }
}

Renderer::Flow Renderer::run(const Block& block) {
  for (const auto& statement : block)
    if (const Flow flow = run(*statement); flow != Flow::normal) return flow;
  return Flow::normal;
}

Renderer::Flow Renderer::run(const Statement& s) {
  const Budget::Level level(budget_);
  budget_.step();
  at_ = s.at;
  switch (s.kind) {
    case StatementKind::data:
      print(s.text);
      break;
    case StatementKind::print: {
      const Value value = evaluate(*s.value);
      at_ = s.at;
      print(str(value, budget_));
      break;
    }
    case StatementKind::set:
      assign(s.target, evaluate(*s.value));
      break;
    case StatementKind::set_block:
      return run_set_block(s);
    case StatementKind::condition:
      return run_condition(s);
    case StatementKind::loop:
      return run_loop(s);
    case StatementKind::macro:
      scope_->set(s.text, make_macro(s.macro));
      break;
    case StatementKind::call:
      run_call(s);
      break;
    case StatementKind::filter:
      return run_filter(s);
    case StatementKind::with:
      return run_with(s);
    case StatementKind::generation:
      return run_scoped(s.body, s.unset, captured_);
    case StatementKind::break_:
      return Flow::leave;
    case StatementKind::continue_:
      return Flow::next_round;
  }
  return Flow::normal;
}

ScopePtr Renderer::make_scope(const ScopePtr& outer, const std::vector<std::string>& unset) {
  auto scope = std::make_shared<Scope>(Scope{outer, {}});
  budget_.step(static_cast<int64_t>(unset.size()));
  for (const std::string& name : unset)  // only what was given could be found instead
    if (variables_.find(name))
      scope->names.emplace_back(name, Value::undefined(fmt::format("'{}' is undefined", name)));
  return scope;
}

/// Runs a block in a scope of its own; what it prints goes to `into`, null being the output.
Renderer::Flow Renderer::run_scoped(const Block& block, const std::vector<std::string>& unset,
                                    std::string* into) {
  const ScopePtr outer = scope_;
  std::string* const captured = std::exchange(captured_, into);
  scope_ = make_scope(outer, unset);
  const Flow flow = run(block);
  scope_ = outer;
  captured_ = captured;
  return flow;
}

Renderer::Flow Renderer::run_condition(const Statement& s) {
  for (const auto& [test, block] : s.branches)
    if (is_true(evaluate(*test))) return run(block);
  return run(s.otherwise);
}

bool Renderer::passes(const Statement& loop, const ScopePtr& outer, const Value& item) {
  const ScopePtr inner = std::exchange(scope_, std::make_shared<Scope>(Scope{outer, {}}));
  assign(loop.target, item);
  const bool result = is_true(evaluate(*loop.test));
  scope_ = inner;
  return result;
}

Renderer::Flow Renderer::run_loop(const Statement& s) {
  const ScopePtr outer = scope_;
  const Value iterated = evaluate(*s.value);
  at_ = s.at;
  LoopState::Filter filter;
  if (s.test) filter = [this, &s, outer](const Value& item) { return passes(s, outer, item); };
  const auto state = std::make_shared<LoopState>(items_of(iterated, budget_), std::move(filter));
  const Value loop = make_loop_value(state);
  // As in Jinja a round that `break` or `continue` cuts short does not count for `else`.
  bool has_run = false;
  Flow flow = Flow::normal;
  while (flow != Flow::leave) {
    budget_.step();
    const std::optional<Value> item = state->next();
    if (!item) break;
    scope_ = make_scope(outer, s.unset);
    scope_->set("loop", loop);
    assign(s.target, *item);
    flow = run(s.body);
    has_run |= flow == Flow::normal;
    scope_ = outer;
  }
  return has_run ? Flow::normal : run_scoped(s.otherwise, s.unset_otherwise, captured_);
}

Renderer::Flow Renderer::run_set_block(const Statement& s) {
  std::string text;
  const Flow flow = run_scoped(s.body, s.unset, &text);
  if (flow != Flow::normal) return flow;
  const Value printed = Value::text(std::move(text), budget_);
  assign(s.target, s.value ? filtered(*s.value, printed) : printed);
  return Flow::normal;
}

Renderer::Flow Renderer::run_filter(const Statement& s) {
  std::string text;
  const Flow flow = run_scoped(s.body, s.unset, &text);
  if (flow != Flow::normal) return flow;
  print(str(filtered(*s.value, Value::text(std::move(text), budget_)), budget_));
  return Flow::normal;
}

Renderer::Flow Renderer::run_with(const Statement& s) {
  const ScopePtr outer = scope_;
  const auto inner = make_scope(outer, s.unset);
  for (const auto& [target, expression] : s.pairs) {
    const Value value = evaluate(*expression);  // sees what is outside only
    scope_ = inner;
    assign(target, value);
    scope_ = outer;
  }
  scope_ = inner;
  const Flow flow = run(s.body);
  scope_ = outer;
  return flow;
}

void Renderer::run_call(const Statement& s) {
  const Value caller = make_macro(s.macro);
  print(str(call(*s.value, &caller), budget_));
}

void Renderer::assign(const Target& target, const Value& value) {
  at_ = target.at;
  if (target.is_tuple) {
    const Items items = items_of(value, budget_);
    if (items.size() != target.parts.size())
      throw Fault("{} values for {} names", items.size(), target.parts.size());
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
  } else if (target.attribute.empty()) {
    budget_.make(sizeof(Value) + target.name.size());
    budget_.step(static_cast<int64_t>(scope_->names.size() / 16));  // they are searched
    scope_->set(target.name, value);
  } else {
    const Value owner = find_name(target.name);
    auto* const* space = owner.get_if<Namespace*>();
    if (!space) throw Fault("attributes can be set on a namespace only, '{}' is none", target.name);
    budget_.make(sizeof(Value) + target.attribute.size());
    (*space)->set(target.attribute, value);
  }
}

Value Renderer::make_macro(const MacroTree& tree) {
  budget_.make(sizeof(Closure) + sizeof(Scope) + sizeof(Callable) + tree.name.size() + 256);
  const Closure& closure = closures_.emplace_back(Closure{&tree, scope_});
  return make_callable("macro " + tree.name, [this, &closure](const Arguments& arguments, Budget&) {
    return call_macro(closure, arguments);
  });
}

Value Renderer::call_macro(const Closure& closure, const Arguments& arguments) {
  const Budget::Level level(budget_);
  const ScopePtr caller = std::exchange(scope_, make_scope(closure.scope, closure.tree->unset));
  std::string text;
  std::string* const captured = std::exchange(captured_, &text);
  bind_macro(*closure.tree, arguments);
  run(closure.tree->body);
  captured_ = captured;
  scope_ = caller;
  return Value::text(std::move(text), budget_);
}

void Renderer::bind_macro(const MacroTree& tree, const Arguments& arguments) {
  const size_t count = tree.parameters.size();
  const size_t without_default = count - tree.defaults.size();
  auto keywords = arguments.keywords;
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    for (size_t i = 0; i < keywords.size(); ++i) {
      if (keywords[i].first != name) continue;
      Value value = keywords[i].second;
      keywords.erase(keywords.begin() + static_cast<ptrdiff_t>(i));
      return value;
    }
    return std::nullopt;
  };
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = tree.parameters[i];
    std::optional<Value> value =
        i < arguments.positional.size() ? arguments.positional[i] : take(name);
    if (!value)
      value = i < without_default
                  ? Value::undefined(fmt::format("parameter '{}' was not provided", name))
                  : evaluate(*tree.defaults[i - without_default]);
    scope_->set(name, *value);
  }
  const bool is_parameter =
      std::find(tree.parameters.begin(), tree.parameters.end(), "caller") != tree.parameters.end();
  if (tree.takes_caller && !is_parameter)
    scope_->set("caller", take("caller").value_or(Value::undefined("No caller defined")));
  if (tree.takes_keywords) {
    Dict rest;
    for (const auto& [name, value] : keywords) rest.set(Value::text(name, budget_), value, budget_);
    scope_->set("kwargs", make_dict(std::move(rest), budget_));
  } else if (!keywords.empty()) {
    throw Fault("macro '{}' takes no keyword argument '{}'", tree.name, keywords.front().first);
  }
  if (tree.takes_more) {
    const size_t begin = std::min(count, arguments.positional.size());
    Items rest(arguments.positional.begin() + static_cast<ptrdiff_t>(begin),
               arguments.positional.end());
    scope_->set("varargs", make_sequence(SequenceKind::tuple, std::move(rest), budget_));
  } else if (arguments.positional.size() > count) {
    throw Fault("macro '{}' takes at most {} arguments", tree.name, count);
  }
}

}  // namespace megalith::chat

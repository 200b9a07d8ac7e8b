// SPDX-License-Identifier: Apache-2.0
// Expressions.
#include "chat/renderer.h"
#include "chat_values/filters.h"
#include "chat_values/operators.h"
#include "chat_values/python_text.h"

namespace megalith::chat {

const Value* Scope::find(std::string_view name, int64_t& looked_at) const {
  for (const Scope* scope = this; scope; scope = scope->outer.get()) {
    for (const auto& [key, value] : scope->names) {
      ++looked_at;
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [key, old] : names) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  names.emplace_back(name, std::move(value));
}

Value Renderer::find_name(const std::string& name) {
  int64_t looked_at = 0;
  const Value* found = scope_->find(name, looked_at);
  budget_.step(looked_at / 16);
  if (found) return *found;
  if (const auto function = find_global(name, world_)) return *function;
  return Value::undefined(fmt::format("'{}' is undefined", name));
}

Items Renderer::evaluate_all(const std::vector<ExpressionPtr>& expressions) {
  Items values;
  for (const ExpressionPtr& expression : expressions) values.push_back(evaluate(*expression));
  return values;
}

Value Renderer::evaluate(const Expression& expression) {
  Value value = evaluate_any(expression);
  if (is_strict_ && value.is_undefined()) at_ = expression.at;
  require_present(value, false);
  return value;
}

/// Fault for what has no value in the strict dialect, unless that is what is asked.
void Renderer::require_present(const Value& value, bool is_asked) const {
  const Undefined* const undefined = value.get_if<Undefined>();
  if (is_strict_ && !is_asked && undefined != nullptr) throw Fault("{}", *undefined->why);
}

Value Renderer::evaluate_any(const Expression& expression) {
  const Budget::Level level(budget_);
  budget_.step();
  at_ = expression.at;
  switch (expression.kind) {
    case ExpressionKind::literal:
      return expression.value;
    case ExpressionKind::name:
      return find_name(expression.text);
    case ExpressionKind::list:
      return make_list(evaluate_all(expression.operands), budget_);
    case ExpressionKind::tuple:
      return make_sequence(SequenceKind::tuple, evaluate_all(expression.operands), budget_);
    case ExpressionKind::dict:
      return evaluate_dict(expression);
    case ExpressionKind::compare:
      return evaluate_compare(expression);
    case ExpressionKind::concat:
      return evaluate_concat(expression);
    case ExpressionKind::attribute:
    case ExpressionKind::item:
    case ExpressionKind::slice:
      return evaluate_access(expression);
    case ExpressionKind::call:
      return call(expression, nullptr);
    default:
      return evaluate_operator(expression);
  }
}

Value Renderer::evaluate_operator(const Expression& e) {
  const auto operand = [&](size_t place) { return evaluate(*e.operands[place]); };
  switch (e.kind) {
    case ExpressionKind::negation:
      return Value::boolean(!is_true(operand(0)));
    case ExpressionKind::sign: {
      const Value value = operand(0);
      at_ = e.at;
      const Value negated = negative(value);
      return e.text == "-" ? negated : negative(negated);
    }
    case ExpressionKind::arithmetic: {
      const Value left = operand(0), right = operand(1);
      at_ = e.at;
      return arithmetic(e.text, left, right, budget_);
    }
    case ExpressionKind::both: {
      const Value left = operand(0);
      return is_true(left) ? operand(1) : left;
    }
    case ExpressionKind::either: {
      const Value left = operand(0);
      return is_true(left) ? left : operand(1);
    }
    case ExpressionKind::conditional:
      if (is_true(operand(1))) return operand(0);
      if (e.operands.size() == 3) return operand(2);
      return Value::undefined("the inline if-expression was false and has no else");
    case ExpressionKind::filter:
      return filtered(e, Value());
    default: {  // test
      const Value value = evaluate_any(*e.operands[0]);
      const Arguments arguments = arguments_of(e);
      at_ = e.at;
      require_present(value, e.text == "defined" || e.text == "undefined");
      return Value::boolean(apply_test(e.text, value, arguments, budget_));
    }
  }
}

/// A chain of filters. The first, of a block, has no operand and gets `innermost`.
Value Renderer::filtered(const Expression& e, const Value& innermost) {
  const Budget::Level level(budget_);
  const ExpressionPtr& inner = e.operands[0];
  const Value input = !inner                                  ? innermost
                      : inner->kind == ExpressionKind::filter ? filtered(*inner, innermost)
                                                              : evaluate_any(*inner);
  const Arguments arguments = arguments_of(e);
  at_ = e.at;
  require_present(input, e.text == "default" || e.text == "d");
  if (is_strict_ && e.text == "tojson")
    throw Fault("the filter tojson of plain Jinja, which escapes HTML, is not supported");
  return apply_filter(e.text, input, arguments, budget_);
}

Value Renderer::optional_part(const Expression& e, size_t place) {
  return e.operands[place] ? evaluate(*e.operands[place]) : Value::none();
}

Value Renderer::evaluate_access(const Expression& e) {
  const Value object = evaluate(*e.operands[0]);
  if (e.kind == ExpressionKind::attribute) {
    at_ = e.at;
    return attribute_of(object, e.text, budget_);
  }
  if (e.kind == ExpressionKind::item) {
    const Value key = evaluate(*e.operands[1]);
    at_ = e.at;
    return item_of(object, key, budget_);
  }
  const Value begin = optional_part(e, 1), end = optional_part(e, 2), step = optional_part(e, 3);
  at_ = e.at;
  return slice_of(object, begin, end, step, budget_);
}

// a < b < c: each pair is compared until one fails, and each operand is evaluated once.
Value Renderer::evaluate_compare(const Expression& e) {
  Value left = evaluate(*e.operands[0]);
  for (size_t i = 0; i < e.signs.size(); ++i) {
    Value right = evaluate(*e.operands[i + 1]);
    at_ = e.at;
    if (!compare(e.signs[i], left, right, budget_)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Renderer::evaluate_concat(const Expression& e) {
  std::string text;
  for (const ExpressionPtr& operand : e.operands) {
    const std::string part = str(evaluate(*operand), budget_);
    budget_.make(part.size());
    text += part;
  }
  return Value::text(std::move(text), budget_);
}

Value Renderer::evaluate_dict(const Expression& e) {
  Dict made;
  for (size_t i = 0; i < e.operands.size(); i += 2) {
    const Value key = evaluate(*e.operands[i]);
    Value value = evaluate(*e.operands[i + 1]);
    at_ = e.at;
    made.set(key, std::move(value), budget_);
  }
  return make_dict(std::move(made), budget_);
}

Arguments Renderer::arguments_of(const Expression& e) {
  Arguments arguments;
  arguments.positional = evaluate_all(e.positional);
  for (const auto& [name, value] : e.keywords) {
    for (const auto& [other, unused] : arguments.keywords)
      if (other == name) throw Fault("the argument '{}' is given twice", name);
    arguments.keywords.emplace_back(name, evaluate(*value));
  }
  return arguments;
}

/// `caller` is what a `call` block gives the macro.
Value Renderer::call(const Expression& e, const Value* caller) {
  const Value callee = evaluate(*e.operands[0]);
  Arguments arguments = arguments_of(e);
  if (caller) arguments.keywords.emplace_back("caller", *caller);
  at_ = e.at;
  if (const Undefined* undefined = callee.get_if<Undefined>()) throw Fault("{}", *undefined->why);
  const auto* callable = callee.get_if<std::shared_ptr<const Callable>>();
  if (!callable || !(*callable)->call)
    throw Fault("a value of type '{}' cannot be called", type_name(callee));
  return (*callable)->call(arguments, budget_);
}

}  // namespace megalith::chat

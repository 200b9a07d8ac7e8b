// SPDX-License-Identifier: Apache-2.0
#include "chat_values/operators.h"

#include <algorithm>
#include <cmath>

#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

[[noreturn]] void refuse_types(std::string_view sign, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right})
    if (const Undefined* undefined = side->get_if<Undefined>()) throw Fault("{}", *undefined->why);
  throw Fault("unsupported operand types for {}: '{}' and '{}'", sign, type_name(left),
              type_name(right));
}

[[noreturn]] void refuse_size(std::string_view sign) {
  throw Fault("whole numbers beyond 64 bits are not supported (result of {})", sign);
}

Value whole_result(std::string_view sign, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflows = false;
  if (sign == "+") {
    overflows = __builtin_add_overflow(left, right, &result);
  } else if (sign == "-") {
    overflows = __builtin_sub_overflow(left, right, &result);
  } else if (sign == "*") {
    overflows = __builtin_mul_overflow(left, right, &result);
  } else {  // // and %: towards minus infinity
    if (right == 0) throw Fault("division by zero");
    if (right == -1) {
      overflows = sign == "//" && __builtin_sub_overflow(int64_t{0}, left, &result);
    } else {
      const int64_t rest = left % right;
      const bool differs = rest != 0 && (rest < 0) != (right < 0);
      result = sign == "//" ? left / right - (differs ? 1 : 0) : rest + (differs ? right : 0);
    }
  }
  if (overflows) refuse_size(sign);
  return Value::integer(result);
}

Value whole_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  const bool is_small = base >= -1 && base <= 1;
  for (int64_t i = is_small ? exponent % 2 + (exponent > 0 ? 2 : 0) : exponent; i > 0; --i)
    if (__builtin_mul_overflow(result, base, &result)) refuse_size("**");
  return Value::integer(result);
}

Value real_result(std::string_view sign, double left, double right) {
  if (sign == "+") return Value::real(left + right);
  if (sign == "-") return Value::real(left - right);
  if (sign == "*") return Value::real(left * right);
  if (sign == "**") {
    if (left == 0 && right < 0) throw Fault("division by zero");
    if (left < 0 && right != std::floor(right)) throw Fault("complex numbers are not supported");
    const double result = std::pow(left, right);
    if (std::isinf(result) && std::isfinite(left) && std::isfinite(right))
      throw Fault("the result of ** is too large");
    return Value::real(result);
  }
  if (right == 0) throw Fault("division by zero");
  if (sign == "/") return Value::real(left / right);
  double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0 && (rest < 0) != (right < 0)) {
    rest += right;
    quotient -= 1;
  }
  if (sign == "%") return Value::real(rest == 0 ? std::copysign(0.0, right) : rest);
  if (quotient == 0) return Value::real(std::copysign(0.0, left / right));
  const double below = std::floor(quotient);
  return Value::real(quotient - below > 0.5 ? below + 1 : below);
}

Value repeated(const Value& value, int64_t count, Budget& budget) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  const size_t each =
      value.is_text() ? value.bytes().size() : value.sequence()->items.size() * sizeof(Value);
  size_t bytes = 0;
  if (__builtin_mul_overflow(times, each, &bytes)) bytes = SIZE_MAX / 2;
  budget.make(bytes);
  if (value.is_text()) {
    std::string text;
    if (each > 0)
      for (size_t i = 0; i < times; ++i) text += value.bytes();
    return Value::text(std::move(text), budget, value.is_safe_text());
  }
  Items items;
  if (each > 0)
    for (size_t i = 0; i < times; ++i)
      items.insert(items.end(), value.sequence()->items.begin(), value.sequence()->items.end());
  return make_sequence(value.sequence()->kind, std::move(items), budget);
}

bool is_repeatable(const Value& value) {
  return value.is_text() || (value.sequence() && value.sequence()->kind <= SequenceKind::tuple);
}

std::optional<Value> joined(const Value& left, const Value& right, Budget& budget) {
  if (left.is_text() && right.is_text()) {
    const bool is_safe = left.is_safe_text() || right.is_safe_text();
    const Value a = is_safe ? escaped(left, budget) : left;
    const Value b = is_safe ? escaped(right, budget) : right;
    budget.make(a.bytes().size() + b.bytes().size());
    return Value::text(a.bytes() + b.bytes(), budget, is_safe);
  }
  const Sequence *a = left.sequence(), *b = right.sequence();
  if (!a || !b || a->kind != b->kind || a->kind > SequenceKind::tuple) return std::nullopt;
  budget.make((a->items.size() + b->items.size()) * sizeof(Value));
  Items items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return make_sequence(a->kind, std::move(items), budget);
}

/// Below, equal, above: -1, 0, 1; 2 if a NaN is among them.
int order_of(const Value& left, const Value& right) {
  const auto a = left.whole(), b = right.whole();
  if (a && b) return *a < *b ? -1 : *a > *b ? 1 : 0;
  // The 64-bit mantissa of a long double holds each int64_t.
  const auto wide = [](const Value& value) {
    const auto whole = value.whole();
    return whole ? static_cast<long double>(*whole) : static_cast<long double>(*value.number());
  };
  const long double x = wide(left), y = wide(right);
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

}  // namespace

Value escaped(const Value& value, Budget& budget) {
  if (value.is_safe_text()) return value;
  return Value::text(escape_html(str(value, budget), budget), budget, true);
}

Value arithmetic(std::string_view sign, const Value& left, const Value& right, Budget& budget) {
  const auto a = left.number(), b = right.number();
  if (a && b) {
    const auto x = left.whole(), y = right.whole();
    if (x && y && sign == "**" && *y >= 0) return whole_power(*x, *y);
    if (x && y && sign != "/" && sign != "**") return whole_result(sign, *x, *y);
    return real_result(sign, *a, *b);
  }
  if (sign == "+")
    if (const auto result = joined(left, right, budget)) return *result;
  if (sign == "*" && is_repeatable(left) && right.whole())
    return repeated(left, *right.whole(), budget);
  if (sign == "*" && is_repeatable(right) && left.whole())
    return repeated(right, *left.whole(), budget);
  if (sign == "%" && left.is_text()) throw Fault("formatting of text by % is not supported; use ~");
  refuse_types(sign, left, right);
}

Value negative(const Value& value) {
  if (const auto whole = value.whole()) return whole_result("-", 0, *whole);
  if (const auto real = value.number()) return Value::real(-*real);
  refuse_types("-", value, Value::integer(0));
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.step();
  if (left.number() && right.number()) return order_of(left, right) == 0;
  if (left.is_text() && right.is_text()) {
    budget.look(left.bytes().size());
    return left.bytes() == right.bytes();
  }
  if (left.held().index() != right.held().index()) return false;
  if (left.is_none() || left.is_undefined()) return true;
  if (const Dict* a = left.dict()) {
    const Dict* b = right.dict();
    if (a->entries.size() != b->entries.size()) return false;
    return std::all_of(a->entries.begin(), a->entries.end(), [&](const auto& entry) {
      const Value* other = b->find(entry.first, budget);
      return other && equal(entry.second, *other, budget);
    });
  }
  if (const Sequence* a = left.sequence()) {
    const Sequence* b = right.sequence();
    if (a == b) return true;
    if (a->kind != b->kind || a->kind == SequenceKind::iterator) return false;
    if (a->items.size() != b->items.size()) return false;
    for (size_t i = 0; i < a->items.size(); ++i)
      if (!equal(a->items[i], b->items[i], budget)) return false;
    return true;
  }
  if (auto* const* space = left.get_if<Namespace*>()) return *space == *right.get_if<Namespace*>();
  using Shared = std::shared_ptr<const Callable>;
  return left.get_if<Shared>() && *left.get_if<Shared>() == *right.get_if<Shared>();
}

bool less(const Value& left, const Value& right, Budget& budget) {
  budget.step();
  if (left.number() && right.number()) return order_of(left, right) == -1;
  if (left.is_text() && right.is_text()) {  // the order of code points is that of their bytes
    budget.look(std::min(left.bytes().size(), right.bytes().size()));
    return left.bytes() < right.bytes();
  }
  const Sequence *a = left.sequence(), *b = right.sequence();
  if (!a || !b || a->kind != b->kind || a->kind > SequenceKind::tuple)
    refuse_types("<", left, right);
  for (size_t i = 0; i < std::min(a->items.size(), b->items.size()); ++i)
    if (!equal(a->items[i], b->items[i], budget)) return less(a->items[i], b->items[i], budget);
  return a->items.size() < b->items.size();
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_text()) {
    if (!item.is_text()) throw Fault("'in' a text asks for a text, not for '{}'", type_name(item));
    budget.look(container.bytes().size());
    return find_text(container.bytes(), item.bytes()) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item, budget) != nullptr;
  const auto is_item = [&](const Value& other) { return equal(item, other, budget); };
  const Sequence* sequence = container.sequence();
  if (sequence && sequence->kind != SequenceKind::iterator)
    return std::any_of(sequence->items.begin(), sequence->items.end(), is_item);
  const Items items = items_of(container, budget);
  return std::any_of(items.begin(), items.end(), is_item);
}

bool compare(std::string_view sign, const Value& left, const Value& right, Budget& budget) {
  if (sign == "==") return equal(left, right, budget);
  if (sign == "!=") return !equal(left, right, budget);
  if (sign == "in") return contains(right, left, budget);
  if (sign == "not in") return !contains(right, left, budget);
  if (sign == "<") return less(left, right, budget);
  if (sign == ">") return less(right, left, budget);
  // A NaN is neither.
  if (left.number() && right.number() && order_of(left, right) == 2) return false;
  return sign == "<=" ? !less(right, left, budget) : !less(left, right, budget);
}

}  // namespace megalith::chat

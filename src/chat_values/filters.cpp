// SPDX-License-Identifier: Apache-2.0
// Filters on numbers and on any value, and the choice of a filter by its name.
#include "chat_values/filters.h"

#include <array>
#include <charconv>
#include <cmath>

#include "chat_values/operators.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

/// A number's text as Python reads it: blanks around it, single underscores between digits.
std::optional<std::string> plain_digits(std::string_view text) {
  text = strip(text, Side::both);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_digit_at = [&](size_t k) {
      return k < text.size() && text[k] >= '0' && text[k] <= '9';
    };
    if (text[i] != '_')
      digits += text[i];
    else if (i == 0 || !is_digit_at(i - 1) || !is_digit_at(i + 1))
      return std::nullopt;
  }
  if (digits.starts_with('+')) {
    digits.erase(0, 1);
    if (digits.starts_with('-')) return std::nullopt;
  }
  if (digits.empty()) return std::nullopt;
  return digits;
}

std::optional<double> read_real(std::string_view text) {
  const auto digits = plain_digits(text);
  if (!digits) return std::nullopt;
  const char* end = digits->data() + digits->size();
  double value = 0;
  const auto result = std::from_chars(digits->data(), end, value);
  if (result.ptr != end || result.ec == std::errc::invalid_argument) return std::nullopt;
  if (result.ec != std::errc()) throw Fault("the number {} is too large", digits->substr(0, 40));
  if (digits->find('(') != std::string::npos) return std::nullopt;  // nan(...)
  return value;
}

std::optional<int64_t> read_whole(std::string_view text, int base) {
  auto digits = plain_digits(text);
  if (!digits) return std::nullopt;
  // 0x1f, 0o17, 0b11 where the base is theirs.
  const size_t sign = digits->starts_with('-') ? 1 : 0;
  const char letter = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : '\0';
  if (letter && digits->size() > sign + 2 && (*digits)[sign] == '0' &&
      ((*digits)[sign + 1] | 0x20) == letter)
    digits->erase(sign, 2);
  const char* end = digits->data() + digits->size();
  int64_t value = 0;
  const auto result = std::from_chars(digits->data(), end, value, base);
  if (result.ptr != end || result.ec == std::errc::invalid_argument) return std::nullopt;
  if (result.ec != std::errc())
    throw Fault("whole numbers beyond 64 bits are not supported ({})", digits->substr(0, 40));
  return value;
}

int64_t cut(double value) {
  if (!(std::abs(value) < 9.2e18))
    throw Fault("the filter int of {} is not supported", repr_float(value));
  return static_cast<int64_t>(value);
}

Value to_int(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter int", {"default", "base"});
  const Value otherwise = bound[0].value_or(Value::integer(0));
  if (const Undefined* undefined = input.get_if<Undefined>()) throw Fault("{}", *undefined->why);
  if (const auto whole = input.whole()) return Value::integer(*whole);
  if (const auto real = input.number()) return Value::integer(cut(*real));
  if (!input.is_text()) return otherwise;
  const int64_t base = bound[1] ? whole_of(*bound[1], "the base of the filter int") : 10;
  if (base < 2 || base > 36) throw Fault("the base {} of the filter int is not supported", base);
  budget.look(input.bytes().size());
  if (const auto whole = read_whole(input.bytes(), static_cast<int>(base)))
    return Value::integer(*whole);
  const auto real = read_real(input.bytes());
  return real && std::isfinite(*real) ? Value::integer(cut(*real)) : otherwise;
}

Value to_float(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter float", {"default"});
  if (const Undefined* undefined = input.get_if<Undefined>()) throw Fault("{}", *undefined->why);
  if (const auto real = input.number()) return Value::real(*real);
  budget.look(input.is_text() ? input.bytes().size() : 0);
  const auto real = input.is_text() ? read_real(input.bytes()) : std::nullopt;
  return real ? Value::real(*real) : bound[0].value_or(Value::real(0));
}

Value absolute(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter abs", {});
  if (const Undefined* undefined = input.get_if<Undefined>()) throw Fault("{}", *undefined->why);
  if (!input.number()) throw Fault("the filter abs of '{}'", type_name(input));
  return less(input, Value::integer(0), budget) ? negative(input)
         : input.whole()                        ? Value::integer(*input.whole())
                                                : input;
}

Value round(const Value& input, const Arguments& arguments, Budget&) {
  const auto bound = arguments.bind("the filter round", {"precision", "method"});
  const int64_t precision = bound[0] ? whole_of(*bound[0], "the precision of the filter round") : 0;
  const std::string method = bound[1] && bound[1]->is_text() ? bound[1]->bytes() : "common";
  if (const Undefined* undefined = input.get_if<Undefined>()) throw Fault("{}", *undefined->why);
  if (!input.number()) throw Fault("the filter round of '{}'", type_name(input));
  if (precision < 0 || precision > 300)
    throw Fault("the precision {} of the filter round is not supported", precision);
  if (method == "common") {
    if (input.whole()) return Value::integer(*input.whole());
    // The exact digits, halves to even, as Python rounds.
    if (!std::isfinite(*input.number())) return input;
    return Value::real(std::stod(fmt::format("{:.{}f}", *input.number(), precision)));
  }
  if (method != "ceil" && method != "floor")
    throw Fault("the method of the filter round is 'common', 'ceil' or 'floor'");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *input.number() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value sum(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter sum", {"attribute", "start"});
  Value total = bound[1].value_or(Value::integer(0));
  for (const Value& item : items_of(input, budget))
    total = arithmetic("+", total, item_at_path(item, bound[0].value_or(Value::none()), budget),
                       budget);
  return total;
}

Value length(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter length", {});
  return Value::integer(length_of(input, budget));
}

Value otherwise(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter default", {"default_value", "boolean"});
  const bool replaces = input.is_undefined() || (bound[1] && is_true(*bound[1]) && !is_true(input));
  return replaces ? bound[0].value_or(Value::text("", budget)) : input;
}

Value attr(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter attr", {"name"});
  if (!bound[0] || !bound[0]->is_text()) throw Fault("the filter attr needs a name");
  // An attribute only: a key of a dict is none.
  if (!input.dict()) return attribute_of(input, bound[0]->bytes(), budget);
  return attribute_of(make_dict({}, budget), bound[0]->bytes(), budget);
}

constexpr std::array<std::pair<std::string_view, Filter>, 10> kNumberFilters = {{
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round},
    {"sum", sum},
    {"length", length},
    {"count", length},
    {"default", otherwise},
    {"d", otherwise},
    {"attr", attr},
}};

}  // namespace

Filter number_filter(std::string_view name) {
  for (const auto& [known, filter] : kNumberFilters)
    if (known == name) return filter;
  return nullptr;
}

Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments,
                   Budget& budget) {
  const Budget::Level level(budget);
  for (const auto find : {text_filter, list_filter, number_filter})
    if (const Filter filter = find(name)) return filter(input, arguments, budget);
  for (const std::string_view known :
       {"center", "filesizeformat", "format", "pprint", "random", "slice", "striptags", "truncate",
        "urlencode", "urlize", "wordwrap", "xmlattr"})
    if (name == known) throw Fault("the filter '{}' is not supported", name);
  throw Fault("there is no filter '{}'", name.substr(0, 60));
}

}  // namespace megalith::chat

// SPDX-License-Identifier: Apache-2.0
// Jinja's tests: what stands behind `is`.
#include <array>

#include "chat_values/filters.h"
#include "chat_values/operators.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

using Test = bool (*)(const Value& input, const Items& arguments, Budget& budget);

bool is_whole_only(const Value& value) { return value.get_if<int64_t>() != nullptr; }

/// The remainder with the divisor's sign; Fault for what is no number.
Value rest_of(const Value& value, int64_t divisor, Budget& budget) {
  return arithmetic("%", value, Value::integer(divisor), budget);
}

bool is_sequence(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.is_undefined() || value.is_text() || value.dict() ||
         (sequence && sequence->kind <= SequenceKind::range);
}

bool is_same(const Value& left, const Value& right, Budget& budget) {
  if (left.held().index() != right.held().index()) return false;
  if (left.sequence()) return left.sequence() == right.sequence();
  if (left.dict()) return left.dict() == right.dict();
  return equal(left, right, budget);
}

struct NamedTest {
  std::string_view name;
  size_t arguments;
  Test test;
};

template <bool wants>
bool is_truth(const Value& value, const Items&, Budget&) {
  const bool* truth = value.get_if<bool>();
  return truth && *truth == wants;
}

constexpr std::array<NamedTest, 24> kTests = {{
    {"defined", 0, [](const Value& v, const Items&, Budget&) { return !v.is_undefined(); }},
    {"undefined", 0, [](const Value& v, const Items&, Budget&) { return v.is_undefined(); }},
    {"none", 0, [](const Value& v, const Items&, Budget&) { return v.is_none(); }},
    {"boolean", 0,
     [](const Value& v, const Items&, Budget&) { return v.get_if<bool>() != nullptr; }},
    {"true", 0, is_truth<true>},
    {"false", 0, is_truth<false>},
    {"integer", 0, [](const Value& v, const Items&, Budget&) { return is_whole_only(v); }},
    {"float", 0,
     [](const Value& v, const Items&, Budget&) { return v.get_if<double>() != nullptr; }},
    {"number", 0, [](const Value& v, const Items&, Budget&) { return v.number().has_value(); }},
    {"string", 0, [](const Value& v, const Items&, Budget&) { return v.is_text(); }},
    {"mapping", 0, [](const Value& v, const Items&, Budget&) { return v.dict() != nullptr; }},
    {"sequence", 0, [](const Value& v, const Items&, Budget&) { return is_sequence(v); }},
    {"iterable", 0,
     [](const Value& v, const Items&, Budget&) { return is_sequence(v) || v.sequence(); }},
    {"callable", 0,
     [](const Value& v, const Items&, Budget&) {
       const auto* held = v.get_if<std::shared_ptr<const Callable>>();
       // Jinja's Undefined can be called, if only to fail.
       return v.is_undefined() || (held && (*held)->call);
     }},
    {"escaped", 0,
     [](const Value& v, const Items&, Budget&) {
       const Text* text = v.get_if<Text>();
       return text && text->is_safe;
     }},
    {"odd", 0,
     [](const Value& v, const Items&, Budget& b) {
       return equal(rest_of(v, 2, b), Value::integer(1), b);
     }},
    {"even", 0,
     [](const Value& v, const Items&, Budget& b) {
       return equal(rest_of(v, 2, b), Value::integer(0), b);
     }},
    {"divisibleby", 1,
     [](const Value& v, const Items& a, Budget& b) {
       return equal(arithmetic("%", v, a[0], b), Value::integer(0), b);
     }},
    {"lower", 0, [](const Value& v, const Items&, Budget& b) { return is_lower(str(v, b)); }},
    {"upper", 0, [](const Value& v, const Items&, Budget& b) { return is_upper(str(v, b)); }},
    {"sameas", 1, [](const Value& v, const Items& a, Budget& b) { return is_same(v, a[0], b); }},
    {"in", 1, [](const Value& v, const Items& a, Budget& b) { return contains(a[0], v, b); }},
    {"filter", 0,
     [](const Value& v, const Items&, Budget& b) {
       const std::string name = str(v, b);
       return text_filter(name) || list_filter(name) || number_filter(name);
     }},
    {"test", 0, nullptr},
}};

struct Comparison {
  std::string_view name, sign;
};

constexpr std::array<Comparison, 13> kComparisons = {{{"eq", "=="},
                                                      {"equalto", "=="},
                                                      {"==", "=="},
                                                      {"ne", "!="},
                                                      {"!=", "!="},
                                                      {"gt", ">"},
                                                      {"greaterthan", ">"},
                                                      {">", ">"},
                                                      {"ge", ">="},
                                                      {"lt", "<"},
                                                      {"lessthan", "<"},
                                                      {"<", "<"},
                                                      {"le", "<="}}};

const NamedTest* find_test(std::string_view name) {
  for (const NamedTest& test : kTests)
    if (test.name == name) return &test;
  return nullptr;
}

std::string_view comparison_of(std::string_view name) {
  for (const Comparison& comparison : kComparisons)
    if (comparison.name == name) return comparison.sign;
  return name == ">=" || name == "<=" ? name : std::string_view();
}

}  // namespace

bool apply_test(std::string_view name, const Value& input, const Arguments& arguments,
                Budget& budget) {
  const Budget::Level level(budget);
  const std::string_view sign = comparison_of(name);
  const NamedTest* test = find_test(name);
  if (sign.empty() && !test) throw Fault("there is no test '{}'", name.substr(0, 60));
  if (!arguments.keywords.empty()) throw Fault("the test '{}' takes no named arguments", name);
  const size_t wanted = test ? test->arguments : 1;
  if (arguments.positional.size() != wanted)
    throw Fault("the test '{}' takes {} arguments, not {}", name, wanted,
                arguments.positional.size());
  if (!sign.empty()) return compare(sign, input, arguments.positional[0], budget);
  if (test->test) return test->test(input, arguments.positional, budget);
  const std::string asked = str(input, budget);  // the test `test`: is there one of that name?
  return find_test(asked) || !comparison_of(asked).empty();
}

}  // namespace megalith::chat

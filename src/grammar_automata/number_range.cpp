// SPDX-License-Identifier: Apache-2.0
#include "grammar_automata/number_range.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"

namespace megalith::grammars {
namespace {

constexpr size_t kMostWholeDigits = 18, kMostDigits = 15;

/// How what has been read compares with a bound.
enum class Order : int { less, equal, greater };

Order order_of(char digit, char bound) {
  return digit < bound ? Order::less : digit > bound ? Order::greater : Order::equal;
}

/// One bound of a magnitude, as digits come.
class Bound {
 public:
  Bound(const std::optional<Decimal>& value, bool excludes, Order wanted)
      : value_(value), excludes_(excludes), wanted_(wanted) {}

  Order start() const { return value_ ? Order::equal : wanted_; }
  /// With the digit at `place` before the point; what counts in the end is how many there are.
  Order whole(Order order, size_t place, char digit) const {
    if (!value_ || order != Order::equal || place >= value_->whole.size()) return order;
    return order_of(digit, value_->whole[place]);
  }
  /// When there are `digits` before the point.
  Order at_point(Order order, size_t digits) const {
    if (!value_ || digits == value_->whole.size()) return order;
    return digits < value_->whole.size() ? Order::less : Order::greater;
  }
  Order fraction(Order order, size_t place, char digit) const {
    if (order != Order::equal) return order;
    return order_of(digit, place < value_->fraction.size() ? value_->fraction[place] : '0');
  }
  /// Whether a number may end with so many digits behind the point.
  bool may_end(Order order, size_t digits) const {
    if (order == Order::equal && digits < value_->fraction.size()) order = Order::less;
    return order == wanted_ || (order == Order::equal && !excludes_);
  }
  bool may_come(Order order) const { return order == wanted_ || order == Order::equal; }
  Order wanted() const { return wanted_; }

 private:
  const std::optional<Decimal>& value_;
  bool excludes_;
  Order wanted_;
};

/// What has been read of a magnitude.
struct Reading {
  bool behind_point = false;
  bool is_zero = false;  // "0", behind which no digit may come
  size_t whole = 0, fraction = 0;
  Order least, most;
  friend auto operator<=>(const Reading&, const Reading&) = default;
};

class Magnitudes {
 public:
  Magnitudes(CodeAutomaton& automaton, const NumberBounds& bounds, bool has_fraction)
      : automaton_(automaton),
        least_(bounds.least, bounds.excludes_least, Order::greater),
        most_(bounds.most, bounds.excludes_most, Order::less),
        has_fraction_(has_fraction) {}

  /// The first state.
  uint32_t build() {
    const uint32_t first = number({false, false, 0, 0, least_.start(), most_.start()});
    for (size_t done = 0; done < readings_.size(); ++done) {
      const auto [state, reading] = readings_[done];
      reading.behind_point ? read_fraction(state, reading) : read_whole(state, reading);
    }
    return first;
  }

 private:
  uint32_t number(Reading reading) {
    // Once both bounds hold, only the number of digits matters.
    if (reading.behind_point && reading.least == least_.wanted() &&
        reading.most == most_.wanted() && reading.fraction > 0) {
      reading.whole += reading.fraction - 1;
      reading.fraction = 1;
      reading.is_zero = false;
    }
    const auto [found, is_new] =
        numbers_.try_emplace(reading, static_cast<uint32_t>(automaton_.nodes.size()));
    if (is_new) {
      automaton_.nodes.emplace_back();
      readings_.emplace_back(found->second, reading);
    }
    return found->second;
  }
  void edge(uint32_t state, char character, const Reading& next) {
    const auto code = static_cast<uint32_t>(character);
    const uint32_t target = number(next);
    automaton_.nodes[state].edges.push_back({CodeSet({{code, code}}), target});
  }

  void read_whole(uint32_t state, const Reading& now) {
    const size_t most_digits = has_fraction_ ? kMostDigits : kMostWholeDigits;
    for (char digit = '0'; digit <= '9' && !now.is_zero && now.whole < most_digits; ++digit) {
      Reading next = now;
      next.least = least_.whole(now.least, now.whole, digit);
      next.most = most_.whole(now.most, now.whole, digit);
      next.is_zero = now.whole == 0 && digit == '0';
      ++next.whole;
      edge(state, digit, next);
    }
    if (now.whole == 0) return;
    Reading next = now;
    next.behind_point = true;
    next.least = least_.at_point(now.least, now.whole);
    next.most = most_.at_point(now.most, now.whole);
    automaton_.nodes[state].is_end = least_.may_end(next.least, 0) && most_.may_end(next.most, 0);
    const bool may_come = least_.may_come(next.least) && most_.may_come(next.most);
    if (has_fraction_ && now.whole < kMostDigits && may_come) edge(state, '.', next);
  }

  void read_fraction(uint32_t state, const Reading& now) {
    automaton_.nodes[state].is_end = now.fraction > 0 && least_.may_end(now.least, now.fraction) &&
                                     most_.may_end(now.most, now.fraction);
    if (now.whole + now.fraction >= kMostDigits) return;
    for (char digit = '0'; digit <= '9'; ++digit) {
      Reading next = now;
      next.least = least_.fraction(now.least, now.fraction, digit);
      next.most = most_.fraction(now.most, now.fraction, digit);
      if (!least_.may_come(next.least) || !most_.may_come(next.most)) continue;
      ++next.fraction;
      edge(state, digit, next);
    }
  }

  CodeAutomaton& automaton_;
  Bound least_, most_;
  bool has_fraction_;
  std::map<Reading, uint32_t> numbers_;
  std::vector<std::pair<uint32_t, Reading>> readings_;
};

bool is_zero(const Decimal& value) { return value.whole == "0" && value.fraction.empty(); }

std::optional<Decimal> negated(std::optional<Decimal> value) {
  if (value) value->is_negative = !value->is_negative && !is_zero(*value);
  return value;
}

CodeAutomaton numbers_within(NumberBounds bounds, bool has_fraction) {
  // Bounds that no number can reach are none; the other way round no number fits.
  const size_t most_digits = has_fraction ? kMostDigits : kMostWholeDigits;
  bool fits = true;
  for (auto* const bound : {&bounds.least, &bounds.most}) {
    if (!*bound || (*bound)->whole.size() <= most_digits) continue;
    fits &= (*bound)->is_negative == (bound == &bounds.least);
    bound->reset();
  }
  CodeAutomaton automaton;
  automaton.nodes.emplace_back();
  if (!fits) return automaton;
  const Decimal zero;
  if (!bounds.most || !bounds.most->is_negative) {
    NumberBounds above = bounds;
    if (above.least && above.least->is_negative) above.least.reset();
    const uint32_t first = Magnitudes(automaton, above, has_fraction).build();
    automaton.nodes[0] = automaton.nodes[first];
  }
  if (!bounds.least || bounds.least->is_negative) {
    NumberBounds below{negated(bounds.most), negated(bounds.least), bounds.excludes_most,
                       bounds.excludes_least};
    if (!below.least || below.least->is_negative || is_zero(*below.least)) {
      below.least = zero;
      below.excludes_least = true;
    }
    const uint32_t first = Magnitudes(automaton, below, has_fraction).build();
    automaton.nodes[0].edges.push_back({CodeSet({{'-', '-'}}), first});
  }
  trim(automaton);
  return automaton;
}

}  // namespace

std::optional<Decimal> decimal_of(const nlohmann::ordered_json& number) {
  if (number.is_number_float() && !std::isfinite(number.get<double>())) return std::nullopt;
  std::string text = number.dump();  // the shortest text that is read as this number
  Decimal decimal;
  decimal.is_negative = text[0] == '-';
  text.erase(0, decimal.is_negative ? 1 : 0);
  int64_t exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string::npos) {
    exponent = std::stoll(text.substr(e + 1));
    text.resize(e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits = text.substr(0, point);
  exponent += static_cast<int64_t>(digits.size());  // where the point is
  if (point < text.size()) digits += text.substr(point + 1);
  if (exponent < 0) digits.insert(0, static_cast<size_t>(-exponent), '0');
  exponent = std::max<int64_t>(exponent, 0);
  const auto before = static_cast<size_t>(exponent);
  if (digits.size() < before) digits.append(before - digits.size(), '0');
  decimal.whole = digits.substr(0, before);
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size()));
  if (decimal.whole.empty()) decimal.whole = "0";
  decimal.fraction = digits.substr(before);
  decimal.fraction.resize(decimal.fraction.find_last_not_of('0') + 1);
  if (is_zero(decimal)) decimal.is_negative = false;
  if (decimal.fraction.size() > kMostDigits) return std::nullopt;
  return decimal;
}

CodeAutomaton whole_numbers(const NumberBounds& bounds, WorkBudget& budget) {
  if (!bounds.any()) return compile_regex("0|-?[1-9][0-9]{0,17}", false, budget);
  return numbers_within(bounds, false);
}

CodeAutomaton decimal_numbers(const NumberBounds& bounds, WorkBudget& budget) {
  if (!bounds.any())
    return compile_regex("-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?", false,
                         budget);
  for (const auto* const bound : {&bounds.least, &bounds.most}) {
    if (!*bound || (*bound)->fraction.empty()) continue;
    if ((*bound)->whole.size() + (*bound)->fraction.size() > kMostDigits)
      throw UserError("a bound of a number has more than {} digits", kMostDigits);
  }
  return numbers_within(bounds, true);
}

}  // namespace megalith::grammars

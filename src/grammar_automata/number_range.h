// SPDX-License-Identifier: Apache-2.0
// JSON numbers within bounds, as automata of their digits. Numbers are written so that whoever
// reads them gets what is meant: a whole number has at most 18 digits and fits 64 bits; a number
// without bounds at most 18 before and behind the point and two of an exponent, so that it is
// finite; one with bounds no exponent and at most 15 digits in all, since so many a double tells
// apart: then it compares with the bounds as its digits do.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "grammar_automata/code_automaton.h"

namespace megalith::grammars {

/// A decimal number without an exponent.
struct Decimal {
  bool is_negative = false;  // never of zero
  std::string whole = "0";   // its digits before the point, without leading zeros
  std::string fraction;      // and behind, without trailing ones
};

/// Of a number of a schema; nothing if it is not finite or has more than kMostBoundDigits digits
/// behind the point.
std::optional<Decimal> decimal_of(const nlohmann::ordered_json& number);

struct NumberBounds {
  std::optional<Decimal> least, most;
  bool excludes_least = false, excludes_most = false;
  bool any() const { return least || most; }
};

/// UserError if a bound needs more digits than numbers may have.
CodeAutomaton whole_numbers(const NumberBounds& bounds, WorkBudget& budget);
CodeAutomaton decimal_numbers(const NumberBounds& bounds, WorkBudget& budget);

}  // namespace megalith::grammars

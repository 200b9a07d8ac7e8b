// SPDX-License-Identifier: Apache-2.0
// Automata of digits against comparing numbers, for all short texts.
#include "grammar_automata/number_range.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace megalith::grammars {
namespace {

bool matches(const CodeAutomaton& automaton, std::string_view text) {
  uint32_t at = 0;
  for (const char c : text) {
    const uint32_t before = at;
    bool found = false;
    for (const CodeEdge& edge : automaton.nodes[before].edges) {
      if (!edge.codes.contains(static_cast<uint8_t>(c))) continue;
      EXPECT_FALSE(found) << "two edges for one digit";
      at = edge.target;
      found = true;
    }
    if (!found) return false;
  }
  return automaton.nodes[at].is_end;
}

/// JSON's numbers without exponents of up to so many characters.
std::vector<std::string> numbers(size_t most, bool has_fraction) {
  std::vector<std::string> all = {""}, found;
  for (size_t begin = 0; begin < all.size(); ++begin) {
    const std::string text = all[begin];
    if (nlohmann::json::accept(text)) found.push_back(text);
    if (text.size() == most) continue;
    for (const char c : std::string_view("-.012589")) {
      if (c == '-' && !text.empty()) continue;
      if (c == '.' && (!has_fraction || text.empty() || text.find('.') != std::string::npos))
        continue;
      all.push_back(text + c);
    }
  }
  return found;
}

void expect_equal(const nlohmann::ordered_json& least, const nlohmann::ordered_json& most,
                  bool excludes_least, bool excludes_most, bool has_fraction,
                  const std::vector<std::string>& texts) {
  NumberBounds bounds;
  if (!least.is_null()) bounds.least = decimal_of(least);
  if (!most.is_null()) bounds.most = decimal_of(most);
  bounds.excludes_least = excludes_least;
  bounds.excludes_most = excludes_most;
  WorkBudget budget;
  const CodeAutomaton automaton =
      has_fraction ? decimal_numbers(bounds, budget) : whole_numbers(bounds, budget);
  for (const std::string& text : texts) {
    const double value = std::stod(text);
    bool fits = !(value == 0 && text[0] == '-');
    if (!least.is_null())
      fits &= excludes_least ? value > least.get<double>() : value >= least.get<double>();
    if (!most.is_null())
      fits &= excludes_most ? value < most.get<double>() : value <= most.get<double>();
    ASSERT_EQ(matches(automaton, text), fits)
        << text << " within " << least << " and " << most << " " << excludes_least << excludes_most;
  }
}

TEST(NumberRange, EqualsComparing) {
  const std::vector<nlohmann::ordered_json> bounds = {nullptr, -120, -25, -1.25, -1,   -0.5,
                                                      0,       0.02, 0.5, 1,     1.58, 9.9,
                                                      10,      85,   100, 1205,  1e-2, 2.5e1};
  const std::vector<std::string> whole = numbers(5, false), decimal = numbers(5, true);
  for (const auto& least : bounds) {
    for (const auto& most : bounds) {
      if (least.is_null() && most.is_null()) continue;
      for (int excludes = 0; excludes < 4; ++excludes) {
        expect_equal(least, most, (excludes & 1) != 0, (excludes & 2) != 0, false, whole);
        expect_equal(least, most, (excludes & 1) != 0, (excludes & 2) != 0, true, decimal);
      }
    }
  }
}

TEST(NumberRange, DecimalsOfDoubles) {
  const auto text = [](const nlohmann::ordered_json& number) {
    const auto decimal = decimal_of(number);
    return decimal ? (decimal->is_negative ? "-" : "") + decimal->whole + "." + decimal->fraction
                   : "none";
  };
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(-1e-7), "-0.0000001");
  EXPECT_EQ(text(1.5e20), "150000000000000000000.");
  EXPECT_EQ(text(120), "120.");
  EXPECT_EQ(text(-0.0), "0.");
  EXPECT_EQ(text(1e-20), "none");
  EXPECT_EQ(text(UINT64_MAX), "18446744073709551615.");
}

TEST(NumberRange, BoundsOutOfReach) {
  WorkBudget budget;
  NumberBounds bounds;
  bounds.most = decimal_of(1.7976931348623157e308);
  EXPECT_TRUE(matches(decimal_numbers(bounds, budget), "123456789.5"));
  EXPECT_TRUE(matches(whole_numbers(bounds, budget), "999999999999999999"));
  bounds.least = bounds.most;
  EXPECT_TRUE(whole_numbers(bounds, budget).is_empty());
}

}  // namespace
}  // namespace megalith::grammars

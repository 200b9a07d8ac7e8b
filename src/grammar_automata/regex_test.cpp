// SPDX-License-Identifier: Apache-2.0
// Expressions against the standard library's, for all short texts.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <regex>

#include "grammar_automata/code_automaton.h"

namespace megalith::grammars {
namespace {

bool matches(const CodeAutomaton& automaton, std::string_view text) {
  uint32_t at = 0;
  for (const char c : text) {
    const auto& edges = automaton.nodes[at].edges;
    const auto edge = std::ranges::find_if(
        edges, [&](const CodeEdge& e) { return e.codes.contains(static_cast<uint8_t>(c)); });
    if (edge == edges.end()) return false;
    at = edge->target;
  }
  return automaton.nodes[at].is_end;
}

std::vector<std::string> texts_up_to(size_t most) {
  std::vector<std::string> all = {""};
  for (size_t i = 0; i < all.size() && all[i].size() < most; ++i)
    for (const char c : std::string_view("ab1-")) all.push_back(all[i] + c);
  return all;
}

std::string random_expression(std::mt19937& random, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  static const char* const atoms[] = {"a",    "b",   "1",   "-", "[ab]",
                                      "[^a]", "\\d", "\\w", ".", "[a-b1]"};
  if (depth == 0) return atoms[pick(10)];
  switch (pick(8)) {
    case 0:
      return random_expression(random, depth - 1) + "|" + random_expression(random, depth - 1);
    case 1:
      return "(" + random_expression(random, depth - 1) + ")*";
    case 2:
      return "(?:" + random_expression(random, depth - 1) + ")?";
    case 3:
      return "(" + random_expression(random, depth - 1) + "){1,2}";
    case 4:
      return "(" + random_expression(random, depth - 1) + ")+";
    case 5:
      return (pick(2) == 0 ? "^" : "") + random_expression(random, depth - 1) +
             (pick(2) == 0 ? "$" : "");
    default:
      return random_expression(random, depth - 1) + random_expression(random, depth - 1);
  }
}

TEST(Regex, EqualsTheStandardLibrary) {
  std::mt19937 random(5);
  const std::vector<std::string> texts = texts_up_to(4);
  for (int i = 0; i < 200; ++i) {
    const std::string expression = random_expression(random, 3);
    const std::regex standard(expression, std::regex::ECMAScript);
    WorkBudget budget;
    const CodeAutomaton whole = compile_regex(expression, false, budget);
    const CodeAutomaton part = compile_regex(expression, true, budget);
    for (const std::string& text : texts) {
      ASSERT_EQ(matches(whole, text), std::regex_match(text, standard))
          << expression << " / " << text;
      ASSERT_EQ(matches(part, text), std::regex_search(text, standard))
          << expression << " / " << text;
    }
  }
}

TEST(Regex, IntersectionsAndLengthsAreThoseOfBoth) {
  std::mt19937 random(6);
  const std::vector<std::string> texts = texts_up_to(4);
  for (int i = 0; i < 100; ++i) {
    WorkBudget budget;
    const CodeAutomaton a = compile_regex(random_expression(random, 3), true, budget);
    const CodeAutomaton b = compile_regex(random_expression(random, 3), false, budget);
    const CodeAutomaton both = intersect(a, b, budget);
    const CodeAutomaton some = with_length(a, 2, 3, budget), most = with_length(a, 2, {}, budget);
    for (const std::string& text : texts) {
      const bool in_a = matches(a, text);
      ASSERT_EQ(matches(both, text), in_a && matches(b, text));
      ASSERT_EQ(matches(some, text), in_a && text.size() >= 2 && text.size() <= 3);
      ASSERT_EQ(matches(most, text), in_a && text.size() >= 2);
    }
  }
}

}  // namespace
}  // namespace megalith::grammars

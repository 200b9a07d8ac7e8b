// SPDX-License-Identifier: Apache-2.0
// Sets of characters as the bytes of UTF-8.
#include <gtest/gtest.h>

#include "characters/utf8.h"
#include "grammar_automata/code_automaton.h"
#include "grammars/grammar_fixture.h"

namespace megalith::grammars {
namespace {

// Every character as its bytes: all of a set's and no others.
TEST(Characters, AreTheirBytes) {
  for (const char* set : {"[\\u0080-\\u07ff]", "[\\u0700-\\uffff]", "[^\\u0041-\\u{10000}]",
                          "[é-€]", ".", "[\\u{1F5FF}-\\u{1F6FF}]", "[\\ud7ff-\\ue000]"}) {
    WorkBudget budget;
    const CodeAutomaton automaton = compile_regex(set, false, budget);
    const Grammar grammar = Grammar::regex(set);
    const auto matcher = std::make_shared<TokenMatcher>(grammar, byte_tokens());
    for (uint32_t code = 0; code <= 0x10FFFF;
         code += code < 0x3000 || code % 0x1000 > 0xFF0 ? 1 : 7) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      std::string text;
      characters::append_utf8(text, code);
      LevelStack stack = matcher->start();
      const bool fits = matcher->advance(stack, text) && stack.back()->can_end();
      ASSERT_EQ(fits, automaton.nodes[0].edges[0].codes.contains(code)) << set << " " << code;
    }
    for (const char* broken :
         {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xE0\x80\x80"}) {
      LevelStack stack = matcher->start();
      EXPECT_FALSE(matcher->advance(stack, broken));
    }
  }
}

}  // namespace
}  // namespace megalith::grammars

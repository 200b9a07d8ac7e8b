// SPDX-License-Identifier: Apache-2.0
#include "grammars/grammar.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/one_line.h"
#include "characters/utf8.h"
#include "grammar_automata/code_automaton.h"
#include "grammar_automata/string_bytes.h"
#include "grammars/schema_compiler.h"

namespace megalith::grammars {
namespace {

Grammar compile_schema(std::string_view text, std::string_view where, Whitespace whitespace) {
  WorkBudget budget;
  SchemaDocument document(text, where, budget);
  return Grammar(SchemaCompiler(document, whitespace, budget).compile(document.root(), where));
}

}  // namespace

Grammar Grammar::parse_json_schema(std::string_view text, std::string_view where,
                                   Whitespace whitespace) {
  return compile_schema(text, where, whitespace);
}

Grammar Grammar::json(Whitespace whitespace) {
  return compile_schema(R"({"type": "object"})", "any JSON object", whitespace);
}

Grammar Grammar::choices(std::span<const std::string> texts) {
  if (texts.empty()) throw UserError("a choice needs at least one text");
  size_t bytes = 0;
  for (const std::string& text : texts) {
    characters::require_utf8(text, "a choice");
    bytes += text.size() + 1;
  }
  if (bytes > kMostGrammarBytes)
    throw UserError("choices of more than {} bytes", kMostGrammarBytes);
  std::vector<std::string> sorted(texts.begin(), texts.end());
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  AutomatonBuilder builder;
  const State start = builder.add_state(), end = builder.add_state();
  add_trie(builder, start, sorted, std::nullopt, end);
  return Grammar(std::move(builder).finish(start, end, "the choices"));
}

Grammar Grammar::regex(std::string_view expression) {
  if (expression.size() > kMostGrammarBytes)
    throw UserError("an expression of more than {} bytes", kMostGrammarBytes);
  WorkBudget budget;
  const CodeAutomaton automaton = compile_regex(expression, false, budget);
  AutomatonBuilder builder;
  const State start = builder.add_state(), end = builder.add_state();
  add_text_automaton(builder, start, automaton, end);
  return Grammar(
      std::move(builder).finish(start, end, "expression '" + one_line(expression, 200) + "'"));
}

}  // namespace megalith::grammars

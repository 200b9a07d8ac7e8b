// SPDX-License-Identifier: Apache-2.0
#include "apps/grammar/options.h"

#include <fmt/ranges.h>

#include "base/file.h"
#include "base/one_line.h"
#include "generate/grammar_constraint.h"
#include "grammars/grammar_state.h"
#include "grammars/token_texts.h"

namespace megalith::apps {
namespace {

std::string read_text(const std::string& path) {
  return read_file(path, int64_t{grammars::kMostGrammarBytes});
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  const std::string file = read_text(path);
  for (size_t at = 0; at < file.size();) {
    const size_t end = std::min(file.find('\n', at), file.size());
    if (end > at) lines.push_back(file.substr(at, end - at));
    at = end + 1;
  }
  if (lines.empty()) throw UserError("{}: no choices: give one in each line", path);
  return lines;
}

}  // namespace

void GrammarOptions::declare(CLI::App& c) {
  CLI::Option* const forms[] = {
      c.add_option("--json-schema", schema, "write JSON that fits the schema of this file"),
      c.add_flag("--json-object", source.json_object, "write a JSON object, whatever its members"),
      c.add_option("--regex", source.regex, "write a text that matches this expression, all of it"),
      c.add_option("--choices", choices, "write one of the lines of this file"),
      c.add_option("--choice", source.choices, "write one of these texts (repeatable)")
          ->take_all()
          ->allow_extra_args(false)};
  for (CLI::Option* const one : forms)
    for (CLI::Option* const other : forms)
      if (one != other) one->excludes(other);
  c.add_flag("--compact-json", source.compact, "and no white space within the JSON");
}

GrammarSource GrammarOptions::read() const {
  GrammarSource whole = source;
  if (source.compact && !schema && !source.json_object)
    throw UserError("--compact-json needs --json-schema or --json-object");
  if (schema) whole.schema = read_text(*schema);
  whole.name = schema               ? *schema
               : choices            ? *choices
               : source.regex       ? "--regex"
               : source.json_object ? "--json-object"
                                    : "--choice";
  if (choices) whole.choices = lines_of(*choices);
  return whole;
}

std::shared_ptr<grammars::TokenMatcher> GrammarSource::matcher(
    const text::Tokenizer& tokenizer) const {
  using grammars::Grammar, grammars::Whitespace;
  const Whitespace whitespace = compact ? Whitespace::compact : Whitespace::flexible;
  std::optional<Grammar> grammar;
  try {
    if (regex) grammar = Grammar::regex(*regex);
    if (!choices.empty()) grammar = Grammar::choices(choices);
  } catch (const UserError& error) {
    throw UserError("{}: {}", name, error.what());
  }
  if (schema) grammar = Grammar::parse_json_schema(*schema, name, whitespace);
  if (json_object) grammar = Grammar::json(whitespace);
  if (!grammar) return nullptr;
  return std::make_shared<grammars::TokenMatcher>(*grammar, grammars::token_trie(tokenizer));
}

void GrammarSource::fail_stuck(const std::shared_ptr<grammars::TokenMatcher>& matcher,
                               std::string_view before, const generate::Generated& written) const {
  try {  // A constraint does not tell why it allows nothing: the same way once more.
    grammars::GrammarState state(matcher, before.empty());
    for (const int32_t id : written.ids) state.accept(id);
    std::vector<uint64_t> allowed(grammars::mask_words(state.tokens().num_ids()));
    state.mask(allowed);
  } catch (const UserError& error) {
    throw UserError("{}: {}", name, error.what());
  }
  // A beam search keeps none of its unfinished texts.
  const std::string place =
      written.ids.empty() ? "no text fits it"
                          : fmt::format("nothing can follow '{}'", one_line(written.text, 200));
  throw UserError(
      "{}: {}: the tokenizer has no token that it allows, or it is too ambiguous to be followed",
      name, place);
}

std::string GrammarSource::text() const {
  return fmt::format("{} {}\n{}\n{}\n{}", json_object, compact, schema.value_or(""),
                     regex.value_or(""), fmt::join(choices, "\n"));
}

std::unique_ptr<generate::TokenConstraint> constraint_of(
    const std::shared_ptr<grammars::TokenMatcher>& matcher, std::string_view before) {
  if (matcher == nullptr) return nullptr;
  return std::make_unique<generate::GrammarConstraint>(
      grammars::GrammarState(matcher, before.empty()));
}

}  // namespace megalith::apps

// SPDX-License-Identifier: Apache-2.0
// megalith bench grammar: what it costs to hold a text to a schema, beside the model's passes: the
// masks of a text's tokens, the first time and again.
#include <algorithm>

#include "apps/bench/figures.h"
#include "base/file.h"
#include "grammars/grammar_state.h"
#include "grammars/token_texts.h"

namespace megalith::apps {
namespace {

constexpr std::string_view kSchema = R"({"type": "object", "properties": {
  "name": {"type": "string"}, "title": {"type": "string", "maxLength": 80},
  "born": {"type": "string", "format": "date"},
  "score": {"type": "number", "minimum": 0, "maximum": 1},
  "address": {"type": "object", "properties": {
      "street": {"type": "string"}, "number": {"type": "integer"},
      "country": {"enum": ["Australia", "Austria", "Belgium"]}},
    "required": ["street", "country"]},
  "notes": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
  "required": ["name", "born", "address"]})";
constexpr std::string_view kText = R"({"name": "Grace Brewster Murray Hopper",
  "title": "Rear admiral, lower half", "born": "1906-12-09", "score": 0.875,
  "address": {"street": "Wolfeboro Road", "number": 12, "country": "Austria"},
  "notes": ["It is often easier to ask for forgiveness than to ask for permission.", null,
            "A ship in port is safe, but that is not what ships are built for."]})";

/// The longest token that the text begins with, or -1.
int32_t longest_token(const grammars::TokenTrie& tokens, std::string_view text) {
  int32_t longest = -1;
  for (int32_t id = 0; id < tokens.num_ids(); ++id) {
    const size_t least = longest < 0 ? 0 : tokens.text(longest).size();
    if (tokens.text(id).size() > least && text.starts_with(tokens.text(id))) longest = id;
  }
  return longest;
}

}  // namespace

int bench_grammar(const text::Tokenizer& tokenizer, const GrammarInput& input,
                  const BenchOptions& o, bool json) {
  using grammars::GrammarState, grammars::TokenMatcher;
  const std::string name = input.schema.empty() ? "schema" : input.schema;
  const std::string schema =
      input.schema.empty() ? std::string(kSchema) : read_file(input.schema, 1 << 20);
  const std::string text = input.text.empty() ? std::string(kText) : read_file(input.text, 1 << 20);
  const auto make = [&] { return grammars::Grammar::parse_json_schema(schema, name); };
  const auto tokens = grammars::token_trie(tokenizer);
  std::vector<uint64_t> mask(grammars::mask_words(tokens->num_ids()));
  // Microseconds of each mask of the text.
  const auto masks = [&](const std::shared_ptr<TokenMatcher>& matcher) {
    std::vector<double> times;
    GrammarState state(matcher);
    for (std::string_view rest = text; !rest.empty();) {
      times.push_back(1e6 / rate(1, [&] { state.mask(mask); }));
      const int32_t id = longest_token(*tokens, rest);
      if (id < 0 || !state.accept(id))
        throw UserError("the text does not fit the schema at byte {}", text.size() - rest.size());
      rest.remove_prefix(tokens->text(id).size());
    }
    return times;
  };
  const auto mean = [](const std::vector<double>& times) {
    double sum = 0;
    for (const double time : times) sum += time;
    return sum / static_cast<double>(times.size());
  };
  std::vector<double> build, trie, first, longest, again, longest_again;
  for (int i = 0; i < o.samples; ++i) {
    trie.push_back(1e3 / rate(1, [&] { (void)grammars::token_trie(tokenizer); }));
    build.push_back(1e6 / rate(1, [&] { (void)make(); }));
    const auto matcher = std::make_shared<TokenMatcher>(make(), tokens);
    const std::vector<double> new_times = masks(matcher), old_times = masks(matcher);
    first.push_back(mean(new_times));
    longest.push_back(std::ranges::max(new_times));
    again.push_back(mean(old_times));
    longest_again.push_back(std::ranges::max(old_times));
  }
  report("grammar.trie", trie, "ms", false, 1, json);
  report("grammar.build", build, "us", false, 1, json);
  report("grammar.first_masks.mean", first, "us", false, 1, json);
  report("grammar.first_masks.longest", longest, "us", false, 1, json);
  report("grammar.masks_again.mean", again, "us", false, 1, json);
  report("grammar.masks_again.longest", longest_again, "us", false, 1, json);
  return 0;
}

}  // namespace megalith::apps

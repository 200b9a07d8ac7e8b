// SPDX-License-Identifier: Apache-2.0
// Walks of grammars for grammar_oracle.py. Each line of standard input is an object: `schema` or
// `regex`, a `seed`, how many `walks` of how many `steps`, and `texts`. Each line of output has
// either `refused`, or `walks` (texts that a random choice of allowed tokens wrote) and `fits` (of
// the texts given, whether each is one of the grammar).
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "grammars/grammar_fixture.h"

namespace {

using namespace megalith::grammars;
using nlohmann::json;

json answer(const json& asked) {
  std::mt19937 random(asked.at("seed").get<uint32_t>());
  const Grammar grammar = asked.contains("schema")
                              ? schema(asked.at("schema").get<std::string>())
                              : Grammar::regex(asked.at("regex").get<std::string>());
  const auto tokens = std::make_shared<const TokenTrie>(random_vocabulary(random, 300));
  const auto matcher = std::make_shared<TokenMatcher>(grammar, tokens);
  json result = {{"walks", json::array()}, {"fits", json::array()}};
  for (int walk = asked.at("walks"); walk > 0; --walk)
    if (const auto text = walked(GrammarState(matcher), asked.at("steps"), random))
      result["walks"].push_back(*text);
  for (const json& text : asked.at("texts"))
    result["fits"].push_back(fits(grammar, text.get<std::string>()));
  return result;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    json result;
    try {
      result = answer(json::parse(line));
    } catch (const megalith::UserError& error) {
      result = {{"refused", error.what()}};
    }
    std::cout << result.dump() << "\n";
  }
}

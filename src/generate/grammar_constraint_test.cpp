// SPDX-License-Identifier: Apache-2.0
// Texts of a model without any training keep to a grammar, alone and in a batch.
#include "generate/grammar_constraint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "generate/batch_testing.h"
#include "generate/generator.h"

namespace megalith::generate {
namespace {

using grammars::Grammar;
using grammars::GrammarState;
using grammars::TokenMatcher;
using grammars::TokenTrie;

// Ids 2 to 96 are the letters of ASCII, but for that of the end token; others have no text.
constexpr int32_t kFirst = 30, kEndId = 7;
constexpr size_t kIds = 100;

std::shared_ptr<const TokenTrie> ascii(size_t ids) {
  std::vector<std::string> texts(ids);
  for (int32_t letter = 32; letter < 127; ++letter)
    if (letter - kFirst != kEndId)
      texts[static_cast<size_t>(letter - kFirst)] = std::string(1, static_cast<char>(letter));
  return std::make_shared<const TokenTrie>(texts);
}

std::unique_ptr<TokenConstraint> constraint(const Grammar& grammar, size_t ids = kIds) {
  return std::make_unique<GrammarConstraint>(
      GrammarState(std::make_shared<TokenMatcher>(grammar, ascii(ids))));
}

std::string text_of(const Generated& result) {
  std::string text;
  for (const int32_t id : result.ids) text += static_cast<char>(id + kFirst);
  return text;
}

TEST(GrammarConstraint, TextsKeepToTheirGrammars) {
  const auto device = device::make_cpu_device(2);
  const auto spec = spec_named("llama");
  inference::InferenceModel model(spec, *device, {.tensor_shards = 2});
  fill(model, *device);
  BatchGenerator generator(model.engine(), nullptr, {.limits = {8, 48, 16}, .blocks = {80}});
  const Grammar schema = Grammar::parse_json_schema(
      R"({"type": "object", "properties": {"a": {"type": "integer"},
          "b": {"type": "array", "items": {"enum": ["x", "yz"]}, "maxItems": 3}},
          "required": ["a", "b"]})",
      "test", grammars::Whitespace::compact);
  const Grammar words = Grammar::choices(std::vector<std::string>{"yes", "no", "maybe"});
  std::vector<Generated> results(12);
  for (size_t i = 0; i < results.size(); ++i) {
    Request request{.prompt = {1, 2, static_cast<int32_t>(i)}};
    request.options = {.max_new_tokens = 60, .end_ids = {kEndId}};
    request.options.sampling = {.temperature = 1.0, .seed = i};
    request.allowed = constraint(i % 2 == 0 ? schema : words, i % 4 < 2 ? kIds : 400);
    request.on_end = [&results, i](Generated end) { results[i] = std::move(end); };
    generator.submit(std::move(request));
  }
  while (generator.step()) {
  }
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].finish_reason, "stop");
    const std::string text = text_of(results[i]);
    if (i % 2 == 1) {
      EXPECT_TRUE(text == "yes" || text == "no" || text == "maybe") << text;
      continue;
    }
    const auto json = nlohmann::json::parse(text);
    EXPECT_TRUE(json.at("a").is_number_integer()) << text;
    for (const auto& item : json.at("b")) EXPECT_TRUE(item == "x" || item == "yz") << text;
  }
}

TEST(GrammarConstraint, IsAValueAndNeverThrowsForAGrammar) {
  const auto first = constraint(Grammar::regex("ab|ac"));
  std::vector<uint64_t> allowed(1, ~uint64_t{0});  // fewer words than the vocabulary's mask
  first->mask(allowed);
  EXPECT_EQ(allowed[0], 0U);
  allowed.assign(3, ~uint64_t{0});  // and more
  first->mask(allowed);
  EXPECT_EQ(allowed, (std::vector<uint64_t>{0, uint64_t{1} << ('a' - kFirst - 64), 0}));
  first->accept('a' - kFirst);
  const auto second = first->clone();
  second->accept('b' - kFirst);
  EXPECT_TRUE(second->can_end());
  EXPECT_FALSE(first->can_end());
  first->accept('c' - kFirst);
  EXPECT_TRUE(first->can_end());

  std::string many = R"({"anyOf": [)";
  for (int i = 0; i < 3000; ++i)
    many += fmt::format(R"({}{{"properties": {{"a": {{"const": {}}}}}, "required": ["a"]}})",
                        i == 0 ? "" : ", ", i);
  const auto ambiguous = constraint(Grammar::parse_json_schema(many + "]}", "test"));
  ambiguous->mask(allowed);
  EXPECT_EQ(allowed, std::vector<uint64_t>(3, 0));
}

// Within a string that may be anything, tokens of plain characters are allowed without a look at
// them: that the grammar is too ambiguous within one shows only when it is taken.
TEST(GrammarConstraint, EndsATextWithinAToken) {
  std::string source = R"({"anyOf": [{"type": "string"})";
  for (int i = 0; i < 40; ++i) {
    source += R"(, {"type": "string", "pattern": "^x()";
    for (int last = 0x80; last < 0xC0; ++last)  // U+00C0 to U+00FF begin with one byte
      source += fmt::format("\xC3{}{}|", static_cast<char>(last), last);
    source += fmt::format("){}$\"}}", i);
  }
  const Grammar grammar = Grammar::parse_json_schema(source + "]}", "test");
  const auto tokens =
      std::make_shared<const TokenTrie>(std::vector<std::string>{"\"", "x\xC3\xA9"});
  GrammarConstraint constraint(GrammarState(std::make_shared<TokenMatcher>(grammar, tokens)));
  constraint.accept(0);
  std::vector<uint64_t> allowed(1);
  constraint.mask(allowed);
  EXPECT_EQ(allowed[0], 3U);
  const auto other = constraint.clone();
  constraint.accept(1);
  constraint.mask(allowed);
  EXPECT_EQ(allowed[0], 0U);
  EXPECT_FALSE(constraint.can_end());
  other->accept(0);
  EXPECT_TRUE(other->can_end());
}

}  // namespace
}  // namespace megalith::generate

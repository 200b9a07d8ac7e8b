// SPDX-License-Identifier: Apache-2.0
// The mask against trying every token, the machine of sets against following every stack alone, and
// walks: what a mask allows leads to texts of the grammar, and every text of it can be walked.
#include "grammars/token_matcher.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "grammars/grammar_fixture.h"

namespace megalith::grammars {
namespace {

/// Follows each way of reading a text by itself: return states, and the state that it is in.
class NaiveReader {
 public:
  explicit NaiveReader(const Grammar& grammar) : automaton_(grammar.automaton()) {
    add(ways_, {automaton_.start()});
  }
  bool read(uint8_t byte) {
    std::set<std::vector<State>> next;
    for (const auto& way : ways_) {
      for (const Edge& edge : automaton_.edges(way.back())) {
        if (edge.kind == EdgeKind::epsilon || byte < edge.first || byte > edge.last) continue;
        std::vector<State> changed = way;
        changed.pop_back();
        if (edge.kind != EdgeKind::close) changed.push_back(edge.target);
        if (edge.kind == EdgeKind::open) changed.push_back(edge.callee);
        add(next, changed);
      }
    }
    ways_ = std::move(next);
    return !ways_.empty();
  }
  bool can_end() const { return ways_.contains({automaton_.end()}); }

 private:
  void add(std::set<std::vector<State>>& ways, std::vector<State> way) const {
    if (!ways.insert(way).second) return;
    for (const Edge& edge : automaton_.edges(way.back())) {
      if (edge.kind != EdgeKind::epsilon) continue;
      way.back() = edge.target;
      add(ways, way);
    }
  }
  const Automaton& automaton_;
  std::set<std::vector<State>> ways_;
};

const std::vector<const char*> kSchemas = {
    R"({})",
    R"({"type": "object", "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 999},
        "name": {"type": "string"}, "kind": {"enum": ["a", "ab", "é"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3}},
        "required": ["id", "kind"]})",
    R"({"anyOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "number"}},
                   "required": ["kind"]},
                  {"properties": {"kind": {"const": "b"}, "x": {"type": "null"}},
                   "required": ["kind"]},
                  {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
                  {"type": "array", "items": {"type": "string", "pattern": "^[a-b]*$"}}]})",
    R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
        "name": {"type": "string", "minLength": 1},
        "a": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "required": ["name"], "additionalProperties": {"type": ["boolean", "null"]}}}})",
    R"({"type": "string", "format": "date"})",
    R"({"type": "array", "items": {"type": "string", "pattern": "\\d-?x|é+"}, "minItems": 1})",
    R"({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "array",
        "prefixItems": [{"$ref": "#"}, {"const": 1}]}, {"type": "null"}]})",
};

std::vector<Grammar> grammars() {
  std::vector<Grammar> all;
  for (const char* source : kSchemas) all.push_back(schema(source));
  for (const size_t nested : {1, 2, 3, 6})
    all.push_back(schema(kSchemas[nested], Whitespace::compact));
  all.push_back(Grammar::json());
  all.push_back(Grammar::choices(std::vector<std::string>{"name", "names", "é", "a b", "abc"}));
  all.push_back(Grammar::regex("(a|b|name)*x{2,5}[^\"]{0,20}"));
  all.push_back(Grammar::regex(".*"));
  return all;
}

TEST(TokenMatcher, MaskEqualsTryingEachToken) {
  std::mt19937 random(1);
  size_t states = 0;
  for (const Grammar& grammar : grammars()) {
    const auto tokens = std::make_shared<const TokenTrie>(random_vocabulary(random, 700));
    const auto matcher = std::make_shared<TokenMatcher>(grammar, tokens);
    for (int walk = 0; walk < 30; ++walk) {
      GrammarState state(matcher);
      for (int step = 0; step < 25; ++step, ++states) {
        const std::vector<uint64_t> mask = mask_of(state);
        for (int32_t id = 0; id < tokens->num_ids(); ++id) {
          GrammarState next = state;
          ASSERT_EQ(next.accept(id), has(mask, id)) << "token '" << tokens->text(id) << "'";
        }
        const std::vector<int32_t> ids = ids_of(mask);
        ASSERT_TRUE(!ids.empty() || state.can_end());
        if (ids.empty()) break;
        ASSERT_TRUE(state.accept(draw(ids, state, random)));
      }
    }
  }
  EXPECT_GT(states, 4000U);
}

TEST(TokenMatcher, SetsEqualStacksFollowedAlone) {
  std::mt19937 random(2);
  for (const Grammar& grammar : grammars()) {
    const auto tokens = std::make_shared<const TokenTrie>(random_vocabulary(random, 300));
    const auto matcher = std::make_shared<TokenMatcher>(grammar, tokens);
    const auto bytes = std::make_shared<TokenMatcher>(grammar, byte_tokens());
    for (int walk = 0; walk < 25; ++walk) {
      GrammarState state(matcher), by_byte(bytes);
      NaiveReader naive(grammar);
      for (int step = 0; step < 20; ++step) {
        ASSERT_EQ(state.can_end(), naive.can_end());
        const std::vector<uint64_t> allowed = mask_of(by_byte);
        for (int byte = 0; byte < 256; ++byte) {
          NaiveReader next = naive;
          ASSERT_EQ(next.read(static_cast<uint8_t>(byte)), has(allowed, byte)) << byte;
        }
        const std::vector<int32_t> ids = ids_of(mask_of(state));
        if (ids.empty()) break;
        const int32_t id = draw(ids, state, random);
        ASSERT_TRUE(state.accept(id));
        for (const char byte : tokens->text(id)) {
          ASSERT_TRUE(naive.read(static_cast<uint8_t>(byte)));
          ASSERT_TRUE(by_byte.accept(static_cast<uint8_t>(byte)));
        }
      }
    }
  }
}

TEST(TokenMatcher, WalksAreJsonAndEveryTokenisationIsAllowed) {
  std::mt19937 random(3);
  size_t texts = 0;
  for (const char* source : kSchemas) {
    const Grammar grammar = schema(source);
    const auto tokens = std::make_shared<const TokenTrie>(random_vocabulary(random, 500));
    const auto matcher = std::make_shared<TokenMatcher>(grammar, tokens);
    for (int walk = 0; walk < 40; ++walk) {
      const auto whole = walked(GrammarState(matcher), 15, random);
      if (!whole) continue;
      ++texts;
      EXPECT_TRUE(nlohmann::json::accept(*whole)) << *whole;
      for (int cut = 0; cut < 5; ++cut) {  // other tokens of the same text
        GrammarState again(matcher);
        for (size_t at = 0; at < whole->size();) {
          std::vector<int32_t> fitting;
          for (int32_t id = 0; id < tokens->num_ids(); ++id)
            if (!tokens->text(id).empty() &&
                std::string_view(*whole).substr(at).starts_with(tokens->text(id)))
              fitting.push_back(id);
          const int32_t id = fitting[random() % fitting.size()];
          ASSERT_TRUE(has(mask_of(again), id)) << *whole << " at " << at;
          ASSERT_TRUE(again.accept(id));
          at += tokens->text(id).size();
        }
        EXPECT_TRUE(again.can_end());
      }
    }
  }
  EXPECT_GT(texts, 150U);
}

TEST(TokenMatcher, TokensWithoutTextNeverCome) {
  const auto tokens = std::make_shared<const TokenTrie>(
      std::vector<std::string>{"", "a", std::string(TokenTrie::kMostTokenBytes + 1, 'a'), "a"});
  GrammarState state(std::make_shared<TokenMatcher>(Grammar::regex("a*"), tokens));
  EXPECT_EQ(ids_of(mask_of(state)), (std::vector<int32_t>{1, 3}));
  for (const int32_t id : {-1, 0, 2, 4}) EXPECT_FALSE(state.accept(id)) << id;
  EXPECT_TRUE(state.accept(3));
}

// "▁a" is " a", but where a text begins "a".
TEST(TokenMatcher, TokensThatDifferFirstAreNotTakenFirst) {
  const std::vector<std::string> texts = {" a", "a", " "};
  const auto tokens =
      std::make_shared<const TokenTrie>(texts, std::vector<bool>{true, false, true});
  const auto matcher = std::make_shared<TokenMatcher>(Grammar::regex("( ?a)*"), tokens);
  GrammarState first(matcher, true), later(matcher, false);
  EXPECT_EQ(ids_of(mask_of(first)), (std::vector<int32_t>{1}));
  EXPECT_EQ(ids_of(mask_of(later)), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_FALSE(first.accept(0));
  EXPECT_TRUE(first.accept(1));
  EXPECT_EQ(mask_of(first), mask_of(later));
}

// A text's mask is a function of the text, whatever has been remembered for others.
TEST(TokenMatcher, MasksDoNotDependOnWhatIsRemembered) {
  std::mt19937 random(4);
  const auto tokens = std::make_shared<const TokenTrie>(random_vocabulary(random, 400));
  const Grammar grammar = schema(kSchemas[3]);
  const auto shared = std::make_shared<TokenMatcher>(grammar, tokens);
  for (int walk = 0; walk < 10; ++walk) {
    GrammarState old(shared), fresh(std::make_shared<TokenMatcher>(grammar, tokens));
    for (int step = 0; step < 20; ++step) {
      const std::vector<uint64_t> mask = mask_of(old);
      ASSERT_EQ(mask, mask_of(fresh));
      const std::vector<int32_t> ids = ids_of(mask);
      if (ids.empty()) break;
      const int32_t id = draw(ids, old, random);
      ASSERT_TRUE(old.accept(id));
      ASSERT_TRUE(fresh.accept(id));
    }
  }
}

}  // namespace
}  // namespace megalith::grammars

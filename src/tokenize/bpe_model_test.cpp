// SPDX-License-Identifier: Apache-2.0
#include "tokenize/bpe_model.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "tokenize/tournament.h"

namespace megalith::tokenize {
namespace {

struct Rule {
  int32_t left, right, made;
};

BpeModel model_of(const std::vector<Rule>& rules) {
  BpeModel model;
  for (int byte = 0; byte < 256; ++byte) model.byte_ids[static_cast<size_t>(byte)] = byte;
  model.merges = MergeTable(rules.size());
  for (size_t rank = 0; rank < rules.size(); ++rank)
    model.merges.set(rules[rank].left, rules[rank].right,
                     {static_cast<uint32_t>(rank), rules[rank].made});
  return model;
}

// The definition: apply the rule of lowest rank at its leftmost place until none applies.
std::vector<int32_t> reference(const std::vector<Rule>& rules, std::string_view word) {
  std::vector<int32_t> ids;
  for (const char byte : word) ids.push_back(static_cast<uint8_t>(byte));
  const auto apply_lowest = [&] {
    for (const Rule& rule : rules)
      for (size_t i = 0; i + 1 < ids.size(); ++i)
        if (ids[i] == rule.left && ids[i + 1] == rule.right) {
          ids[i] = rule.made;
          ids.erase(ids.begin() + static_cast<ptrdiff_t>(i) + 1);
          return true;
        }
    return false;
  };
  while (apply_lowest()) {
  }
  return ids;
}

std::vector<int32_t> encode(const BpeModel& model, std::string_view word) {
  MergeScratch scratch;
  std::vector<int32_t> ids;
  model.encode_word(word, scratch, ids);
  return ids;
}

// Rules over few letters, later rules building on earlier ones; `shuffled` breaks the usual order
// in which a token is made before it is used.
std::vector<Rule> random_rules(std::mt19937& draw, size_t number, int letters, bool shuffled) {
  std::vector<Rule> rules;
  for (size_t i = 0; i < number; ++i) {
    const auto symbol = [&]() -> int32_t {
      const size_t any = draw() % (static_cast<size_t>(letters) + rules.size());
      return any < static_cast<size_t>(letters) ? 'a' + static_cast<int32_t>(any)
                                                : rules[any - static_cast<size_t>(letters)].made;
    };
    rules.push_back({symbol(), symbol(), 256 + static_cast<int32_t>(i)});
    for (size_t j = 0; j + 1 < rules.size(); ++j)
      if (rules[j].left == rules.back().left && rules[j].right == rules.back().right) {
        rules.pop_back();
        break;
      }
  }
  if (shuffled) std::shuffle(rules.begin(), rules.end(), draw);
  return rules;
}

std::string random_word(std::mt19937& draw, size_t size, int letters) {
  std::string word;
  for (size_t i = 0; i < size; ++i)
    word.push_back(
        static_cast<char>('a' + static_cast<int>(draw() % static_cast<unsigned>(letters))));
  return word;
}

TEST(BpeModel, ByHand) {
  // "ab" before "bc" before "abc": in "abcbc" ab is merged first, then bc, then ab+c finds no c.
  const std::vector<Rule> rules = {{'a', 'b', 256}, {'b', 'c', 257}, {256, 'c', 258}};
  const BpeModel model = model_of(rules);
  EXPECT_EQ(encode(model, "abcbc"), (std::vector<int32_t>{258, 257}));
  EXPECT_EQ(encode(model, "xbcx"), (std::vector<int32_t>{'x', 257, 'x'}));
  EXPECT_EQ(encode(model, ""), std::vector<int32_t>{});
  EXPECT_EQ(encode(model, "q"), std::vector<int32_t>{'q'});
  EXPECT_EQ(encode(model_of({{'a', 'a', 256}}), "aaaaa"), (std::vector<int32_t>{256, 256, 'a'}));
}

TEST(BpeModel, ShortWordsEqualTheDefinition) {
  std::mt19937 draw(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int letters = 1 + static_cast<int>(draw() % 4);
    const std::vector<Rule> rules = random_rules(draw, 40, letters, trial % 2 == 0);
    const BpeModel model = model_of(rules);
    for (int i = 0; i < 20; ++i) {
      const std::string word = random_word(draw, draw() % 60, letters);
      ASSERT_EQ(encode(model, word), reference(rules, word)) << word;
    }
  }
}

// Words of several windows, so that joints are tried, fail and are moved.
TEST(BpeModel, LongWordsEqualTheDefinition) {
  std::mt19937 draw(2);
  for (int trial = 0; trial < 60; ++trial) {
    const int letters = 1 + trial % 4;
    const std::vector<Rule> rules = random_rules(draw, 60, letters, trial % 3 == 0);
    const BpeModel model = model_of(rules);
    const std::string word = random_word(draw, 300 + draw() % 1500, letters);
    ASSERT_EQ(encode(model, word), reference(rules, word)) << "trial " << trial;
  }
}

// A chain of letters in which each later pair has the lower rank: where the first token ends is
// decided at the far end, beyond any window.
TEST(BpeModel, InfluenceFromBeyondTheWindowIsSeen) {
  constexpr int kLetters = 250;
  std::vector<Rule> rules;
  for (int i = kLetters - 2; i >= 0; --i) rules.push_back({i, i + 1, 256 + i});
  const BpeModel model = model_of(rules);
  std::string chain;
  for (int i = 0; i < kLetters; ++i) chain.push_back(static_cast<char>(i));
  for (const int cut : {0, 1}) {  // an odd or even number of letters decides all the pairs
    std::string word = chain.substr(0, static_cast<size_t>(kLetters - cut));
    for (int i = 0; i < 5; ++i) word += word.substr(0, 200 + static_cast<size_t>(i));
    EXPECT_EQ(encode(model, word), reference(rules, word));
  }
}

// Tokens longer than a window: 2^12 equal letters become one token.
TEST(BpeModel, TokensLongerThanTheWindow) {
  std::vector<Rule> rules = {{'a', 'a', 256}};
  for (int i = 0; i < 11; ++i) rules.push_back({256 + i, 256 + i, 257 + i});
  const BpeModel model = model_of(rules);
  EXPECT_EQ(encode(model, std::string(4096, 'a')), std::vector<int32_t>{267});
  const std::string word(4096 + 2048 + 3, 'a');
  EXPECT_EQ(encode(model, word), (std::vector<int32_t>{267, 266, 256, 'a'}));
  EXPECT_EQ(encode(model, word), reference(rules, word));
}

TEST(BpeModel, BytesWithoutATokenAreLeftOutOrUnknown) {
  BpeModel model = model_of({{'a', 'b', 256}});
  model.byte_ids['x'] = -1;
  EXPECT_EQ(encode(model, "axb"), std::vector<int32_t>{256});  // they become neighbours
  model.byte_ids['x'] = model.byte_ids['y'] = 300;
  EXPECT_EQ(encode(model, "axyb"), (std::vector<int32_t>{'a', 300, 300, 'b'}));
  model.fused_id = 300;
  EXPECT_EQ(encode(model, "axyxbx"), (std::vector<int32_t>{'a', 300, 'b', 300}));
}

TEST(MergeTable, FindsWhatWasSetAndNothingElse) {
  std::mt19937 draw(5);
  std::vector<Rule> rules;
  MergeTable table(5000);
  for (int32_t i = 0; i < 5000; ++i) {
    rules.push_back({static_cast<int32_t>(draw() % 70000), i, i * 3});
    table.set(rules.back().left, rules.back().right, {static_cast<uint32_t>(i), i * 3});
  }
  for (uint32_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(table.find(rules[i].left, rules[i].right).rank, i);
    EXPECT_EQ(table.find(rules[i].left, rules[i].right).id, rules[i].made);
    EXPECT_EQ(table.find(rules[i].left + 70000, rules[i].right).rank, kNoRank);
  }
  table.set(rules[7].left, rules[7].right, {9999, 1});  // the later one counts
  EXPECT_EQ(table.find(rules[7].left, rules[7].right).rank, 9999u);
  EXPECT_EQ(MergeTable().find(0, 0).rank, kNoRank);
}

TEST(Tournament, TopIsTheLeastThroughChanges) {
  std::mt19937_64 draw(6);
  for (const size_t size : {1u, 2u, 8u, 9u, 64u, 65u, 513u}) {
    Tournament tournament;
    tournament.reset(size);
    EXPECT_EQ(tournament.top(), Tournament::kNever);
    std::vector<uint64_t> keys(size);
    for (size_t i = 0; i < size; ++i) tournament.leaf(i) = keys[i] = draw() % 1000;
    tournament.build();
    for (int change = 0; change < 500; ++change) {
      EXPECT_EQ(tournament.top(), *std::min_element(keys.begin(), keys.end()));
      const size_t i = draw() % size;
      tournament.leaf(i) = keys[i] = draw() % 3 == 0 ? Tournament::kNever : draw() % 1000;
      tournament.refresh(i);
    }
  }
}

}  // namespace
}  // namespace megalith::tokenize

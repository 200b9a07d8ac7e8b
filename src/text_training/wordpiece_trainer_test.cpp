// SPDX-License-Identifier: Apache-2.0
#include "text_training/wordpiece_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tokenize/random_text_fixture.h"

namespace megalith::text {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer train(std::string_view text, WordPieceTrainer::Options options) {
  ThreadPool pool(2);
  WordPieceTrainer trainer(options);
  trainer.add(text);
  return trainer.train(pool);
}

// By hand: "low" 3 times, "lower" 2: pairs l ##o 5, ##o ##w 5, ##w ##e 2, ##e ##r 2. Characters e,
// l, o, r, w are ids 5 to 9; those within words, e, o, r, w, are 10 to 13. Of the two pairs with 5
// the lower ids win.
TEST(WordPieceTrainer, MergesByHand) {
  const Tokenizer tokenizer = train("low Low LOW lower lower", {.vocab_size = 18});
  EXPECT_EQ(tokenizer.token_text(1), "[UNK]");
  EXPECT_EQ(tokenizer.token_text(5), "e");
  EXPECT_EQ(tokenizer.token_text(13), "##w");
  EXPECT_EQ(tokenizer.token_text(14), "lo");
  EXPECT_EQ(tokenizer.token_text(15), "low");
  EXPECT_EQ(tokenizer.token_text(16), "##er");
  EXPECT_EQ(tokenizer.token_text(17), "lower");
  EXPECT_EQ(tokenizer.vocab_size(), 18);
  EXPECT_EQ(tokenizer.encode("lower row x", true), (Ids{2, 17, 8, 11, 13, 1, 3}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("lower row", true)), "lower row");
}

TEST(WordPieceTrainer, SizesThatCannotBeMetAreRefused) {
  const auto expect_refused = [](int64_t size, const char* reason) {
    EXPECT_THAT([&] { train("low lower", {.vocab_size = size}); },
                testing::ThrowsMessage<UserError>(testing::HasSubstr(reason)));
  };
  expect_refused(13, "need 14");
  expect_refused(100, "18 entries is the largest");
  EXPECT_THROW(train("low", {.vocab_size = int64_t{1} << 40}), UserError);
  EXPECT_THROW(train("\xFF", {.vocab_size = 20}), UserError);
  EXPECT_THAT([&] { train("low lower", {.vocab_size = 15, .min_frequency = 3}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("14 entries is the largest")));
}

TEST(WordPieceTrainer, RareCharactersAreLeftOut) {
  const Tokenizer tokenizer = train("aab aab aab zaab", {.vocab_size = 10, .most_characters = 2});
  EXPECT_EQ(tokenizer.id_of("z"), std::nullopt);
  EXPECT_EQ(tokenizer.token_text(9), "aa");
  EXPECT_EQ(tokenizer.encode("zaab aab", false), (Ids{1, 9, 8}));
}

// Of a word with such a character nothing is learnt, not even from the rest of it.
TEST(WordPieceTrainer, RareCharactersCutNoWords) {
  EXPECT_THAT([&] { train("bzaaa aa b b", {.vocab_size = 10, .most_characters = 2}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("9 entries is the largest")));
}

TEST(WordPieceTrainer, OneCorpusGivesOneVocabulary) {
  const std::string text = tokenize::built_in_text();
  const Tokenizer tokenizer = train(text, {.vocab_size = 150});
  EXPECT_EQ(train(text, {.vocab_size = 150}).to_json(), tokenizer.to_json());
  EXPECT_EQ(tokenizer.vocab_size(), 150);
  for (const int32_t id : tokenizer.encode(text, false)) EXPECT_NE(id, 1);
}

}  // namespace
}  // namespace megalith::text

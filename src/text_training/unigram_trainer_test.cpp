// SPDX-License-Identifier: Apache-2.0
#include "text_training/unigram_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "base/error.h"
#include "text_training/repeated_substrings.h"
#include "text_training/unigram_lattice.h"
#include "tokenize/random_text_fixture.h"

namespace megalith::text {
namespace {

using Ids = std::vector<int32_t>;

std::string random_word(std::mt19937& draw, size_t most, int letters) {
  std::string word(1 + draw() % most, 'a');
  for (char& c : word) c = static_cast<char>('a' + static_cast<int>(draw() % letters));
  return word;
}

// Against all substrings, counted one by one.
TEST(RepeatedSubstrings, EqualsCountingThemAll) {
  std::mt19937 draw(1);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t most = 2 + draw() % 5;
    WordCounts words;
    std::map<std::string, int64_t> counts;
    for (int i = 0; i < 12; ++i) {
      const std::string word = random_word(draw, 8, 3);
      const int64_t count = 1 + static_cast<int64_t>(draw() % 3);
      words.add(word, WordCounts::hash_of(word), count);
      for (size_t begin = 0; begin < word.size(); ++begin)
        for (size_t size = 1; size <= most && begin + size <= word.size(); ++size)
          counts[word.substr(begin, size)] += count;
    }
    std::map<std::string, int64_t> wanted;
    for (const auto& [text, count] : counts) {
      bool is_maximal = count >= 2 && text.size() >= 2;
      for (char c = 'a'; c <= 'c' && text.size() < most; ++c)
        if (const auto longer = counts.find(text + c); longer != counts.end())
          is_maximal = is_maximal && longer->second < count;
      if (is_maximal) wanted[text] = count;
    }
    std::map<std::string, int64_t> found;
    int64_t last = std::numeric_limits<int64_t>::max();
    for (const Substring& substring : repeated_substrings(words, most, 1000)) {
      EXPECT_TRUE(found.emplace(substring.text, substring.count).second);
      const int64_t gain = substring.count * static_cast<int64_t>(substring.text.size());
      EXPECT_LE(gain, last);
      last = gain;
    }
    ASSERT_EQ(found, wanted);
    EXPECT_LE(repeated_substrings(words, most, 3).size(), 3u);
  }
}

// Against all ways to cut a text, one by one.
TEST(UnigramLattice, EqualsWalkingAllWays) {
  std::mt19937 draw(2);
  for (int trial = 0; trial < 200; ++trial) {
    std::map<std::string, double> known;
    for (int i = 0; i < 8; ++i)
      known[random_word(draw, 3, 2)] = -0.5 - 0.003 * static_cast<int>(draw() % 1000);
    std::vector<ScoredPiece> pieces;
    double lowest = 0;
    for (const auto& [text, score] : known) {
      pieces.push_back({text, score});
      lowest = std::min(lowest, score);
    }
    const std::string word = random_word(draw, 7, 2);
    std::vector<double> sums(pieces.size(), 0);
    double total = 0, best = -1e300;
    Ids best_ids, ids;
    const std::function<void(size_t, double)> walk = [&](size_t at, double score) {
      if (at == word.size()) {
        total += std::exp(score);
        for (const int32_t id : ids)
          if (id >= 0) sums[static_cast<size_t>(id)] += std::exp(score);
        if (score > best) best = score, best_ids = ids;
        return;
      }
      bool has_first = false;
      for (size_t i = 0; i < pieces.size(); ++i) {
        if (!std::string_view(word).substr(at).starts_with(pieces[i].text)) continue;
        has_first = has_first || pieces[i].text.size() == 1;
        ids.push_back(static_cast<int32_t>(i));
        walk(at + pieces[i].text.size(), score + pieces[i].score);
        ids.pop_back();
      }
      if (has_first) return;
      ids.push_back(UnigramLattice::kUnknown);
      walk(at + 1, score + lowest - 10);
      ids.pop_back();
    };
    walk(0, 0);
    UnigramLattice lattice(pieces);
    std::vector<double> expected(pieces.size(), 0);
    EXPECT_NEAR(lattice.add_expected(word, 3, expected), 3 * std::log(total), 1e-8);
    for (size_t i = 0; i < pieces.size(); ++i) EXPECT_NEAR(expected[i], 3 * sums[i] / total, 1e-9);
    lattice.best(word);
    EXPECT_NEAR(lattice.score(), best, 1e-9);
  }
}

TEST(UnigramLattice, BestWithoutAPiece) {
  const std::vector<ScoredPiece> pieces = {{"a", -2}, {"b", -3}, {"ab", -1}};
  UnigramLattice lattice(pieces);
  EXPECT_EQ(lattice.best("ab"), (Ids{2}));
  EXPECT_EQ(lattice.best("ab", 2), (Ids{0, 1}));
  EXPECT_EQ(lattice.best("b", 1), (Ids{UnigramLattice::kUnknown}));
}

Tokenizer train(std::string_view text, UnigramTrainer::Options options, int threads = 2) {
  ThreadPool pool(threads);
  UnigramTrainer trainer(options);
  trainer.add(text);
  return trainer.train(pool);
}

// Sentences of random words, so that the words are what is worth a piece.
TEST(UnigramTrainer, FindsTheWords) {
  std::mt19937 draw(3);
  const std::string words[] = {"zebra", "quick", "lemon", "violin", "oxygen", "tiger", "hummus"};
  std::string text;
  for (int i = 0; i < 3000; ++i) text += words[draw() % std::size(words)] + ' ';
  const Tokenizer tokenizer = train(text, {.vocab_size = 32});
  EXPECT_EQ(tokenizer.vocab_size(), 32);
  for (const std::string& word : words) {
    const Ids ids = tokenizer.encode(word, false);
    ASSERT_EQ(ids.size(), 1u) << word;
    EXPECT_EQ(tokenizer.token_text(ids[0]), "\xE2\x96\x81" + word);
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("zebra  lemon quiz", true)), "zebra lemon quiz");
  EXPECT_EQ(tokenizer.encode("zebra?", true).back(), 1);  // </s>
}

TEST(UnigramTrainer, OneCorpusGivesOneVocabulary) {
  const std::string text = tokenize::built_in_text();
  const std::string trained = train(text, {.vocab_size = 100}).to_json();
  for (const int threads : {1, 3, 4})
    EXPECT_EQ(train(text, {.vocab_size = 100}, threads).to_json(), trained);
  const Tokenizer tokenizer = Tokenizer::parse(trained, "trained");
  EXPECT_EQ(tokenizer.vocab_size(), 100);
  for (const int32_t id : tokenizer.encode(text, false)) EXPECT_NE(id, 2);
}

TEST(UnigramTrainer, RareCharactersBecomeUnknown) {
  const Tokenizer tokenizer = train("aaa aaa bbb bbb q", {.vocab_size = 6, .most_characters = 3});
  EXPECT_EQ(tokenizer.id_of("q"), std::nullopt);
  const Ids ids = tokenizer.encode("q", false);
  EXPECT_EQ(ids.back(), 2);
}

TEST(UnigramTrainer, SizesThatCannotBeMetAreRefused) {
  const auto expect_refused = [](int64_t size, const char* reason) {
    EXPECT_THAT([&] { train("low lower lowest", {.vocab_size = size}); },
                testing::ThrowsMessage<UserError>(testing::HasSubstr(reason)));
  };
  expect_refused(10, "need 11");
  expect_refused(1000, "is the largest vocabulary");
  EXPECT_THROW(train("low", {.vocab_size = int64_t{1} << 40}), UserError);
  EXPECT_THROW(train("\xFF", {.vocab_size = 20}), UserError);
  EXPECT_EQ(train("", {.vocab_size = 3}).vocab_size(), 3);
}

}  // namespace
}  // namespace megalith::text

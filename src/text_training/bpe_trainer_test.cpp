// SPDX-License-Identifier: Apache-2.0
#include "text_training/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "text/tokenizer_data.h"
#include "tokenize/random_text_fixture.h"
#include "tokenize/split.h"

namespace megalith::text {
namespace {

using Merges = std::vector<std::pair<int32_t, int32_t>>;

Tokenizer train(const std::vector<std::string>& documents, BpeTrainer::Options options,
                int threads = 1) {
  ThreadPool pool(threads);
  BpeTrainer trainer(std::move(options));
  const std::vector<std::string_view> views(documents.begin(), documents.end());
  trainer.add(views, pool);
  return trainer.train(pool);
}

// The definition: count all pairs anew for every merge.
Merges reference(const Tokenizer& alphabet, const std::string& text, tokenize::SplitPattern pattern,
                 size_t num_merges) {
  std::vector<std::vector<int32_t>> words;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* next = tokenize::word_scanner(pattern)(at, end);
    words.emplace_back();
    for (; at < next; ++at)
      words.back().push_back(alphabet.data().model.byte_ids[static_cast<uint8_t>(*at)]);
  }
  std::map<std::string, int32_t> ids;
  std::vector<std::string> tokens;
  for (int32_t id = 0; id < 257; ++id) tokens.emplace_back(alphabet.token_bytes(id));
  Merges merges;
  while (merges.size() < num_merges) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const auto& word : words)
      for (size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    auto best = counts.begin();
    for (auto it = counts.begin(); it != counts.end();
         ++it)  // ascending: the first of equals stays
      if (it->second > best->second) best = it;
    const auto [left, right] = best->first;
    merges.push_back(best->first);
    const std::string made = tokens[static_cast<size_t>(left)] + tokens[static_cast<size_t>(right)];
    const int32_t id = ids.contains(made) ? ids[made] : static_cast<int32_t>(tokens.size());
    if (!ids.contains(made)) tokens.push_back(made);
    ids[made] = id;
    for (auto& word : words) {
      std::vector<int32_t> merged;
      for (size_t i = 0; i < word.size(); ++i) {
        const bool hit = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
        merged.push_back(hit ? id : word[i]);
        i += hit;
      }
      word = merged;
    }
  }
  return merges;
}

TEST(BpeTrainer, ByHand) {
  // Pairs: "lo" 3, "ow" 3 tie; ids follow the bytes' order here, and (l,o) < (o,w).
  const Tokenizer tokenizer = train({"low low low er er"}, {.vocab_size = 260});
  EXPECT_EQ(tokenizer.vocab_size(), 260);
  EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 0);
  EXPECT_EQ(tokenizer.token_text(1), "!");
  EXPECT_EQ(tokenizer.token_text(257), "lo");
  EXPECT_EQ(tokenizer.token_text(258), "low");
  EXPECT_EQ(tokenizer.token_text(259), "er");  // 2, as often as " low" and " er"... lowest pair
  EXPECT_EQ(tokenizer.encode("low<|endoftext|>", false), (std::vector<int32_t>{258, 0}));
  EXPECT_EQ(tokenizer.end_of_document(), 0);
}

TEST(BpeTrainer, MergesEqualTheDefinition) {
  const std::string english = tokenize::built_in_text();
  std::mt19937 draw(1);
  std::string overlapping;
  for (int i = 0; i < 400; ++i) overlapping.push_back("aab "[draw() % 4]);
  for (const tokenize::SplitPattern pattern :
       {tokenize::SplitPattern::gpt2, tokenize::SplitPattern::llama3,
        tokenize::SplitPattern::qwen2})
    for (const std::string& text : {english, overlapping, tokenize::random_text(draw, 600)}) {
      const Tokenizer tokenizer = train({text}, {.vocab_size = 310, .pattern = pattern});
      const Merges& merges = tokenizer.data().merges;
      EXPECT_EQ(merges, reference(tokenizer, text, pattern, merges.size()));
      EXPECT_EQ(tokenizer.vocab_size(), 310);
    }
}

// The result depends on the text alone: not on threads, on the order of documents, or on where long
// documents were cut.
void expect_one_result(std::vector<std::string> documents) {
  std::mt19937 draw(2);
  for (int i = 0; i < 20; ++i) documents.push_back(tokenize::random_text(draw, 300));
  for (std::string& document : documents)
    while (characters::find_invalid_utf8(document) != std::string::npos) document.pop_back();
  const std::string one = train(documents, {.vocab_size = 1500}, 1).to_json();
  EXPECT_EQ(train(documents, {.vocab_size = 1500}, 2).to_json(), one);
  EXPECT_EQ(train(documents, {.vocab_size = 1500}, 3).to_json(), one);
  std::shuffle(documents.begin(), documents.end(), draw);
  EXPECT_EQ(train(documents, {.vocab_size = 1500}, 3).to_json(), one);
  ThreadPool pool(1);
  BpeTrainer one_by_one({.vocab_size = 1500});
  for (const std::string& document : documents) one_by_one.add(document);
  EXPECT_EQ(one_by_one.train(pool).to_json(), one);
}

TEST(BpeTrainer, ThreadsAndDocumentOrderChangeNothing) {
  expect_one_result({tokenize::built_in_text()});
}

TEST(BpeTrainer, ThreadsAndDocumentOrderChangeNothingOfRealTexts) {
  std::vector<std::string> documents = tokenize::real_texts();
  if (documents.empty()) GTEST_SKIP() << tokenize::kNoRealTexts;
  documents.back().resize(300000);
  expect_one_result(std::move(documents));
}

// Enough distinct words that merges are shared between threads and tables are gathered.
TEST(BpeTrainer, ManyWordsOnManyThreads) {
  std::mt19937 draw(3);
  std::string text;
  for (int i = 0; i < 60000; ++i) {
    for (size_t letters = 2 + draw() % 5; letters > 0; --letters)
      text.push_back(static_cast<char>('a' + static_cast<int>(draw() % 20 * (draw() % 20) / 20)));
    text.push_back(' ');
  }
  const std::string one = train({text}, {.vocab_size = 600}, 1).to_json();
  EXPECT_EQ(train({text}, {.vocab_size = 600}, 2).to_json(), one);
  EXPECT_EQ(train({text}, {.vocab_size = 600}, 3).to_json(), one);
}

TEST(BpeTrainer, TooFewPairsIsAnErrorThatSaysTheLargestVocabulary) {
  EXPECT_EQ(train({"ab ab"}, {.vocab_size = 259}).vocab_size(), 259);
  EXPECT_THAT([] { train({"ab ab"}, {.vocab_size = 300}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("259 entries is the largest")));
  EXPECT_THAT([] { train({}, {.vocab_size = 258}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("257 entries")));
  EXPECT_EQ(train({}, {.vocab_size = 257}).vocab_size(), 257);
  EXPECT_THAT([] { train({"ab ab cd"}, {.vocab_size = 259, .min_frequency = 2}); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("258 entries")));
}

TEST(BpeTrainer, ImpossibleOptionsAndInputAreErrors) {
  EXPECT_THROW(BpeTrainer({.vocab_size = 256}), UserError);
  EXPECT_THROW(BpeTrainer({.vocab_size = -5}), UserError);
  EXPECT_THROW(BpeTrainer({.vocab_size = int64_t{1} << 40}), UserError);
  EXPECT_THROW(BpeTrainer({.vocab_size = 300, .min_frequency = 0}), UserError);
  EXPECT_THROW(BpeTrainer({.vocab_size = 300, .pattern = tokenize::SplitPattern::none}), UserError);
  EXPECT_THROW(BpeTrainer({.vocab_size = 300}).add("bad \xFF"), UserError);
  EXPECT_THROW(train({"text"}, {.vocab_size = 300, .special_tokens = {"<a>", "<a>"}}), UserError);
}

/// What was trained on the built-in text and what its file says give the same ids of `texts`.
void expect_same_when_read(const std::vector<std::string>& texts) {
  for (const tokenize::SplitPattern pattern :
       {tokenize::SplitPattern::gpt2, tokenize::SplitPattern::llama3}) {
    const Tokenizer trained = train(
        {tokenize::built_in_text()},
        {.vocab_size = 320, .pattern = pattern, .special_tokens = {"<|endoftext|>", "<|pad|>"}});
    const Tokenizer read = Tokenizer::parse(trained.to_json(), "trained");
    EXPECT_EQ(read.to_json(), trained.to_json());
    EXPECT_EQ(read.data().pre_tokenizer.scanner(), tokenize::word_scanner(pattern));
    for (const std::string& text : texts)
      EXPECT_EQ(read.encode(text, true), trained.encode(text, true));
    EXPECT_TRUE(read.is_special(*read.id_of("<|pad|>")));
  }
}

TEST(BpeTrainer, TrainedFileReadsAsTheSameTokenizer) {
  expect_same_when_read({tokenize::built_in_text()});
}

TEST(BpeTrainer, TrainedFileReadsAsTheSameTokenizerOfRealTexts) {
  const std::vector<std::string> texts = tokenize::real_texts();
  if (texts.empty()) GTEST_SKIP() << tokenize::kNoRealTexts;
  expect_same_when_read(texts);
}

TEST(BpeTrainer, ProgressEndsAtTheAim) {
  std::vector<int64_t> entries;
  train({tokenize::built_in_text()},
        {.vocab_size = 350,
         .progress = [&](const BpeTrainer::Progress& p) { entries.push_back(p.entries); }});
  EXPECT_TRUE(std::is_sorted(entries.begin(), entries.end()));
  ASSERT_FALSE(entries.empty());
  EXPECT_EQ(entries.back(), 350);
}

}  // namespace
}  // namespace megalith::text

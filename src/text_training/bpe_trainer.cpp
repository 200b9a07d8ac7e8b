// SPDX-License-Identifier: Apache-2.0
// Counting runs on all threads into tables of their own; these are emptied into common tables, one
// thread per range of hashes, whenever one has grown large and before training.
#include "text_training/bpe_trainer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "characters/utf8.h"
#include "text/tokenizer_data.h"
#include "text_training/merge_search.h"
#include "tokenize/byte_level.h"

namespace megalith::text {
namespace {

constexpr size_t kShards = 64;
constexpr size_t kGatherWords = size_t{1} << 18;
constexpr size_t kPieceBytes = size_t{1} << 20;
// A merge visits each word that holds its pair whole, so words without end (a genome, a base64
// blob) are counted in pieces; Hugging Face's trainer does not cut them and slows down instead.
constexpr size_t kMaxWordBytes = 1024;

tokenize::PreTokenizer pre_tokenizer(tokenize::SplitPattern pattern) {
  using tokenize::ByteLevelSplit;
  if (pattern == tokenize::SplitPattern::gpt2)
    return tokenize::PreTokenizer({ByteLevelSplit{.add_prefix_space = false, .map_bytes = false}});
  return tokenize::PreTokenizer(
      {tokenize::PatternSplit{pattern},
       ByteLevelSplit{.add_prefix_space = false, .use_regex = false, .map_bytes = false}});
}

std::string pre_tokenizer_json(tokenize::SplitPattern pattern) {
  constexpr const char* kBytes =
      R"({{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":{}}})";
  if (pattern == tokenize::SplitPattern::gpt2) return fmt::format(kBytes, true);
  std::string regex;
  for (const char c : tokenize::pattern_regex(pattern)) {
    if (c == '\\') regex += '\\';
    regex += c;
  }
  return fmt::format(
      R"({{"type":"Sequence","pretokenizers":[{{"type":"Split","pattern":{{"Regex":"{}"}},)"
      R"("behavior":"Isolated","invert":false}},{}]}})",
      regex, fmt::format(kBytes, false));
}

}  // namespace

BpeTrainer::BpeTrainer(Options options) : options_(std::move(options)), total_(kShards) {
  const int64_t smallest = 256 + static_cast<int64_t>(options_.special_tokens.size());
  if (options_.vocab_size < smallest)
    throw UserError(
        "a vocabulary of {} is too small: the 256 bytes and {} special token(s) need {}",
        options_.vocab_size, options_.special_tokens.size(), smallest);
  if (options_.vocab_size > kMaxVocabulary)
    throw UserError("a vocabulary of {} is too large (at most {})", options_.vocab_size,
                    kMaxVocabulary);
  if (options_.min_frequency < 1)
    throw UserError("min_frequency is {}; it must be at least 1", options_.min_frequency);
  if (options_.pattern == tokenize::SplitPattern::none)
    throw UserError("training needs a split pattern: gpt2, llama3 or qwen2");
}

void BpeTrainer::count_words(std::string_view text, WordCounts& counts) const {
  const tokenize::WordScanner scanner = tokenize::word_scanner(options_.pattern);
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    const char* word_end = scanner(at, end);
    while (at < word_end) {
      const size_t size = std::min(static_cast<size_t>(word_end - at), kMaxWordBytes);
      const std::string_view word(at, size);
      counts.add(word, WordCounts::hash_of(word), 1);
      at += size;
    }
  }
}

void BpeTrainer::add(std::string_view document) {
  characters::require_utf8(document, "the document");
  if (local_.empty()) local_.resize(1);
  count_words(document, local_[0]);
}

void BpeTrainer::add(std::span<const std::string_view> documents, ThreadPool& pool) {
  std::vector<std::string_view> pieces;
  for (const std::string_view document : documents) {
    characters::require_utf8(document, "the document");
    for (std::string_view rest = document; !rest.empty();) {
      const size_t cut = tokenize::find_safe_cut(rest, kPieceBytes);
      pieces.push_back(rest.substr(0, cut));
      rest.remove_prefix(cut);
    }
  }
  const size_t threads = static_cast<size_t>(pool.num_threads());
  if (local_.size() < threads) local_.resize(threads);
  std::atomic<size_t> next{0};
  pool.run([&](int thread) {
    for (size_t i = next.fetch_add(1); i < pieces.size(); i = next.fetch_add(1))
      count_words(pieces[i], local_[static_cast<size_t>(thread)]);
  });
  for (const WordCounts& counts : local_)
    if (counts.size() > kGatherWords) return gather(pool);
}

void BpeTrainer::gather(ThreadPool& pool) {
  pool.run([&](int thread) {
    for (const WordCounts& counts : local_)
      for (size_t i = 0; i < counts.size(); ++i) {
        const size_t shard = counts.hash(i) >> 58;
        if (shard % static_cast<size_t>(pool.num_threads()) == static_cast<size_t>(thread))
          total_[shard].add(counts.word(i), counts.hash(i), counts.count(i));
      }
  });
  for (WordCounts& counts : local_) counts.clear();
}

size_t BpeTrainer::num_words() const {
  size_t number = 0;
  for (const WordCounts& counts : local_) number += counts.size();
  for (const WordCounts& counts : total_) number += counts.size();
  return number;
}

Tokenizer BpeTrainer::train(ThreadPool& pool) {
  gather(pool);
  local_ = {};
  auto data = std::make_shared<TokenizerData>();
  const auto add_token = [&](std::string_view token) {
    const int32_t id = static_cast<int32_t>(data->vocabulary.size());
    data->vocabulary.add(id, token, "the special tokens");
    data->model_ids.push_back(id);
    return id;
  };
  for (const std::string& name : options_.special_tokens) {
    characters::require_utf8(name, "a special token");
    data->added_tokens.push_back({.id = add_token(name), .content = name, .special = true});
  }
  for (const uint8_t byte : tokenize::bytes_by_character()) {
    const char as_char = static_cast<char>(byte);
    data->model.byte_ids[byte] = add_token(tokenize::bytes_to_token(std::string_view(&as_char, 1)));
  }
  find_merges(*data, pool);
  data->pre_tokenizer = pre_tokenizer(options_.pattern);
  data->decoder = Decoder({ByteLevelDecoder{}});
  data->pre_tokenizer_json = pre_tokenizer_json(options_.pattern);
  data->post_processor_json = data->decoder_json =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  complete_model(*data, "the trained tokenizer");
  complete_added_tokens(*data);
  return Tokenizer(std::move(data));
}

void BpeTrainer::find_merges(TokenizerData& data, ThreadPool& pool) {
  Vocabulary& vocabulary = data.vocabulary;
  const auto report = [&] {
    if (options_.progress) options_.progress({vocabulary.size(), options_.vocab_size});
  };
  const auto bytes_of = [&data](std::string_view word, std::vector<int32_t>& symbols) {
    for (const char byte : word) symbols.push_back(data.model.byte_ids[static_cast<uint8_t>(byte)]);
  };
  MergeSearch search(std::exchange(total_, std::vector<WordCounts>(kShards)), bytes_of, pool);
  while (vocabulary.size() < options_.vocab_size) {
    const std::optional<MergeSearch::Pair> pair = search.most_frequent(options_.min_frequency);
    if (!pair)
      throw UserError(
          "the corpus has no more pairs that occur {} time(s) or more: {} entries is the largest "
          "vocabulary it gives, {} were asked for; lower the vocabulary size or add text",
          options_.min_frequency, vocabulary.size(), options_.vocab_size);
    std::string made(vocabulary.token(pair->left));
    made.append(vocabulary.token(pair->right));
    // Two ways of cutting the same bytes give one token, reached by two merges.
    std::optional<int32_t> id = vocabulary.find(made);
    if (!id) {
      id = static_cast<int32_t>(vocabulary.size());
      vocabulary.add(*id, made, "the trained vocabulary");
      data.model_ids.push_back(*id);
      if (*id % 256 == 0) report();
    }
    data.merges.emplace_back(pair->left, pair->right);
    search.merge(*pair, *id, pool);
  }
  report();
}

}  // namespace megalith::text

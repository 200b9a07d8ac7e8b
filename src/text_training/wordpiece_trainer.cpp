// SPDX-License-Identifier: Apache-2.0
#include "text_training/wordpiece_trainer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "characters/utf8.h"
#include "text_training/merge_search.h"

namespace megalith::text {
namespace {

constexpr std::string_view kPrefix = "##";
constexpr const char* kSpecialTokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr int32_t kCls = 2, kSep = 3;

// The tokens by id, and ids by token.
struct TokenList {
  int32_t add(std::string token) {
    const auto [place, is_new] = ids.emplace(std::move(token), static_cast<int32_t>(tokens.size()));
    if (is_new) tokens.push_back(place->first);
    return place->second;
  }
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  std::unordered_map<std::string, int32_t> ids;
  std::vector<std::string> tokens;
};

struct Symbols {  // of a character
  int32_t first = -1;
  int32_t further = -1;  // -1: it only begins words
};

std::string spell(uint32_t code) {
  std::string text;
  characters::append_utf8(text, code);
  return text;
}

std::unordered_map<uint32_t, Symbols> add_characters(const CorpusWords& words, size_t most,
                                                     TokenList& vocabulary) {
  auto found = words.characters();
  if (found.size() > most) {
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    found.resize(most);
    std::sort(found.begin(), found.end());
  }
  std::unordered_map<uint32_t, Symbols> symbols;
  for (const auto& [code, count] : found) symbols[code].first = vocabulary.add(spell(code));
  std::set<uint32_t> within;
  for (size_t i = 0; i < words.counts().size(); ++i) {
    const std::string_view word = words.counts().word(i);
    for (size_t at = characters::read_utf8(word.data()).length; at < word.size();) {
      const characters::CodePoint point = characters::read_utf8(word.data() + at);
      within.insert(point.code);
      at += point.length;
    }
  }
  for (const auto& [code, count] : found)
    if (within.contains(code))
      symbols[code].further = vocabulary.add(std::string(kPrefix) + spell(code));
  return symbols;
}

std::string joined(const std::string& left, std::string_view right) {
  if (right.starts_with(kPrefix)) right.remove_prefix(kPrefix.size());
  return left + std::string(right);
}

nlohmann::json post_processor() {
  const auto token = [](int32_t id, int type) {
    return nlohmann::json{{"SpecialToken", {{"id", kSpecialTokens[id]}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) {
    return nlohmann::json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const auto ids = [](int32_t id) {
    return nlohmann::json{
        {"id", kSpecialTokens[id]}, {"ids", {id}}, {"tokens", {kSpecialTokens[id]}}};
  };
  return {
      {"type", "TemplateProcessing"},
      {"single", {token(kCls, 0), text("A", 0), token(kSep, 0)}},
      {"pair", {token(kCls, 0), text("A", 0), token(kSep, 0), text("B", 1), token(kSep, 1)}},
      {"special_tokens", {{kSpecialTokens[kCls], ids(kCls)}, {kSpecialTokens[kSep], ids(kSep)}}}};
}

Tokenizer tokenizer_of(const TokenList& vocabulary) {
  nlohmann::json added = nlohmann::json::array();
  for (int32_t id = 0; id < static_cast<int32_t>(std::size(kSpecialTokens)); ++id)
    added.push_back({{"id", id}, {"content", kSpecialTokens[id]}, {"special", true}});
  const nlohmann::json file = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"strip_accents", nullptr},
        {"lowercase", true}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor", post_processor()},
      {"decoder", {{"type", "WordPiece"}, {"prefix", kPrefix}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", kPrefix},
        {"max_input_chars_per_word", kMostWordCharacters},
        {"vocab", vocabulary.ids}}}};
  return Tokenizer::parse(file.dump(), "the trained tokenizer");
}

}  // namespace

WordPieceTrainer::WordPieceTrainer(Options options)
    : options_(options),
      words_(tokenize::Normalizer({tokenize::BertNormalizer{}}),
             tokenize::PreTokenizer({tokenize::BertWords{}})) {
  if (options_.vocab_size > kMaxVocabulary)
    throw UserError("a vocabulary of {} is too large (at most {})", options_.vocab_size,
                    kMaxVocabulary);
}

Tokenizer WordPieceTrainer::train(ThreadPool& pool) const {
  TokenList vocabulary;
  for (const char* token : kSpecialTokens) vocabulary.add(token);
  const auto symbols = add_characters(words_, options_.most_characters, vocabulary);
  if (vocabulary.size() > options_.vocab_size)
    throw UserError(
        "a vocabulary of {} is too small: {} special tokens and {} characters, at the beginning of "
        "words and within, need {}",
        options_.vocab_size, std::size(kSpecialTokens), symbols.size(), vocabulary.size());
  const auto symbols_of = [&](std::string_view word, std::vector<int32_t>& ids) {
    const size_t before = ids.size();
    for (size_t at = 0; at < word.size();) {
      const characters::CodePoint point = characters::read_utf8(word.data() + at);
      const auto found = symbols.find(point.code);
      if (found == symbols.end()) return ids.resize(before);
      ids.push_back(at == 0 ? found->second.first : found->second.further);
      at += point.length;
    }
  };
  MergeSearch search({words_.counts()}, symbols_of, pool);
  while (vocabulary.size() < options_.vocab_size) {
    const auto pair = search.most_frequent(options_.min_frequency);
    if (!pair)
      throw UserError(
          "the corpus has no more pairs that occur {} time(s) or more: {} entries is the largest "
          "vocabulary it gives, {} were asked for; lower the vocabulary size or add text",
          options_.min_frequency, vocabulary.size(), options_.vocab_size);
    const auto token = [&](int32_t id) { return vocabulary.tokens[static_cast<size_t>(id)]; };
    search.merge(*pair, vocabulary.add(joined(token(pair->left), token(pair->right))), pool);
  }
  return tokenizer_of(vocabulary);
}

}  // namespace megalith::text

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/error.h"
#include "characters/utf8.h"
#include "text/tokenizer.h"
#include "text/tokenizer_data.h"
#include "tokenize/word_cache.h"

namespace megalith::text {

using tokenize::WordCache;

struct Encoder::State {
  State(const Tokenizer& used, size_t cache_words)
      : tokenizer(used), data(tokenizer.data()), cache(cache_words) {}

  void encode_text(std::string_view text, std::vector<int32_t>& ids);
  void encode_normalized(std::string_view text, bool at_start, std::vector<int32_t>& ids);
  void encode_part(std::string_view text, bool at_start, std::vector<int32_t>& ids);
  template <typename NextWord>
  void encode_words(const char* readable_end, const NextWord& next_word, std::vector<int32_t>& ids);
  void encode_scanned(std::string_view text, tokenize::WordScanner scanner,
                      std::vector<int32_t>& ids);
  void encode_new_word(std::string_view word, std::vector<int32_t>& ids);
  int32_t id_of_whole_word(std::string_view word) const;

  Tokenizer tokenizer;
  const TokenizerData& data;
  WordCache cache;
  tokenize::MergeScratch scratch;
  tokenize::UnigramModel::Scratch unigram_scratch;
  tokenize::SentencePieceUnigram::Scratch sentencepiece_scratch;
  tokenize::Normalizer::Scratch normalized;
  tokenize::Words words;
  std::vector<TextPart> raw_parts;
  std::vector<TextPart> normalized_parts;
};

Encoder::Encoder(const Tokenizer& tokenizer, size_t cache_words)
    : state_(std::make_unique<State>(tokenizer, cache_words)) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

void Encoder::encode(std::string_view text, std::vector<int32_t>& ids, bool add_special_tokens) {
  characters::require_utf8(text, "the text");
  const size_t before = ids.size();
  try {
    for (const TemplatePiece& piece : state_->data.post_processor.single) {
      if (piece.part != TemplatePiece::Part::token) {
        state_->encode_text(text, ids);
      } else if (add_special_tokens) {
        ids.push_back(piece.id);
      }
    }
  } catch (...) {
    ids.resize(before);
    throw;
  }
}

void Encoder::encode_typed(std::string_view text, std::optional<std::string_view> pair,
                           Encoding& encoding, bool add_special_tokens) {
  characters::require_utf8(text, "the text");
  if (pair) characters::require_utf8(*pair, "the second text");
  const size_t before = encoding.ids.size();
  const PostProcessor& post_processor = state_->data.post_processor;
  try {
    for (const TemplatePiece& piece : pair ? post_processor.pair : post_processor.single) {
      if (piece.part != TemplatePiece::Part::token) {
        const bool first = piece.part == TemplatePiece::Part::text_a;
        state_->encode_text(first ? text : *pair, encoding.ids);
      } else if (add_special_tokens) {
        encoding.ids.push_back(piece.id);
      }
      encoding.type_ids.resize(encoding.ids.size(), piece.type_id);
    }
  } catch (...) {
    encoding.ids.resize(before);
    encoding.type_ids.resize(before);
    throw;
  }
}

void Encoder::State::encode_text(std::string_view text, std::vector<int32_t>& ids) {
  raw_parts.clear();
  data.raw_matcher.split(text, raw_parts);
  for (const TextPart& part : raw_parts) {
    const bool at_start = part.text.data() == text.data();
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else if (data.normalizer.changes_nothing()) {
      encode_normalized(part.text, at_start, ids);
    } else {
      const auto result = data.normalizer.apply(part.text, normalized);
      encode_normalized(result.text, at_start && result.keeps_start, ids);
    }
  }
}

void Encoder::State::encode_normalized(std::string_view text, bool at_start,
                                       std::vector<int32_t>& ids) {
  normalized_parts.clear();
  data.normalized_matcher.split(text, normalized_parts);
  for (const TextPart& part : normalized_parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      encode_part(part.text, at_start && part.text.data() == text.data(), ids);
    }
  }
}

void Encoder::State::encode_part(std::string_view text, bool at_start, std::vector<int32_t>& ids) {
  const tokenize::PreTokenizer& pre_tokenizer = data.pre_tokenizer;
  if (data.cuts_at_marks) return encode_scanned(text, tokenize::scan_marked_word, ids);
  if (pre_tokenizer.does_nothing()) return encode_new_word(text, ids);
  if (const tokenize::WordScanner scanner = pre_tokenizer.scanner()) {
    if (pre_tokenizer.adds_space() && text.front() != ' ')
      return encode_scanned(" " + std::string(text), scanner, ids);
    return encode_scanned(text, scanner, ids);
  }
  pre_tokenizer.cut(text, at_start, words);
  const char* const base = words.text.data();
  auto next = words.words.begin();
  encode_words(
      base + words.text.size(),
      [&](std::string_view& word) {
        if (next == words.words.end()) return false;
        word = {base + next->begin, next->end - next->begin};
        ++next;
        return true;
      },
      ids);
}

void Encoder::State::encode_scanned(std::string_view text, tokenize::WordScanner scanner,
                                    std::vector<int32_t>& ids) {
  const char* at = text.data();
  const char* const end = at + text.size();
  encode_words(
      end,
      [&](std::string_view& word) {
        if (at == end) return false;
        const char* const begin = at;
        at = scanner(at, end);
        word = {begin, static_cast<size_t>(at - begin)};
        return true;
      },
      ids);
}

// Ids are gathered in a small buffer: an entry's eight ids are copied without asking how many
// count.
template <typename NextWord>
void Encoder::State::encode_words(const char* readable_end, const NextWord& next_word,
                                  std::vector<int32_t>& ids) {
  std::array<int32_t, 1024> buffer;
  size_t filled = 0;
  const auto flush = [&] {
    ids.insert(ids.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(filled));
    filled = 0;
  };
  for (std::string_view word; next_word(word);) {
    if (word.size() <= WordCache::kMaxBytes) {
      const WordCache::Key key = WordCache::make_key(word.data(), word.size(), readable_end);
      if (const WordCache::Entry* entry = cache.find(key)) {
        if (filled + WordCache::kMaxIds > buffer.size()) flush();
        std::copy_n(entry->ids.begin(), WordCache::kMaxIds, buffer.begin() + filled);
        filled += entry->num_ids();
        continue;
      }
      flush();
      const size_t before = ids.size();
      encode_new_word(word, ids);
      const size_t num_ids = ids.size() - before;
      if (num_ids >= 1 && num_ids <= WordCache::kMaxIds)
        cache.insert(key, ids.data() + before, num_ids);
      continue;
    }
    flush();
    encode_new_word(word, ids);
  }
  flush();
}

int32_t Encoder::State::id_of_whole_word(std::string_view word) const {
  const auto id_of = [this](std::string_view text) { return data.whole_words.find(text); };
  if (const int32_t id = id_of(word); id >= 0) return id;
  const int32_t unknown = data.unk_token ? id_of(*data.unk_token) : -1;
  if (unknown < 0)
    throw UserError("the word \"{}\" has no token, and the vocabulary no unknown token",
                    word.substr(0, 80));
  return unknown;
}

void Encoder::State::encode_new_word(std::string_view word, std::vector<int32_t>& ids) {
  switch (data.kind) {
    case ModelKind::byte_bpe:
      if (data.ignore_merges) {
        if (const std::optional<int32_t> id = data.vocabulary.find_bytes(word)) {
          ids.push_back(*id);
          return;
        }
      }
      return data.model.encode_word(word, scratch, ids);
    case ModelKind::character_bpe:
      scratch.symbols.clear();
      data.characters.append(word, scratch.symbols);
      return data.model.merge_symbols(scratch, ids);
    case ModelKind::wordpiece:
      return data.wordpiece.encode_word(word, ids);
    case ModelKind::unigram:
      return data.unigram.encode_word(word, unigram_scratch, ids);
    case ModelKind::sentencepiece_unigram:
      return data.sentencepiece_unigram.encode(word, sentencepiece_scratch, cache, ids);
    case ModelKind::word_level:
      return ids.push_back(id_of_whole_word(word));
  }
  MEGA_CHECK(false);
}

}  // namespace megalith::text

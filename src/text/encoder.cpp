// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "characters/utf8.h"
#include "text/tokenizer.h"
#include "text/tokenizer_data.h"
#include "text/word_cache.h"

namespace megalith::text {

struct Encoder::State {
  State(const Tokenizer& used, size_t cache_words)
      : tokenizer(used),
        data(tokenizer.data()),
        scanner(word_scanner(data.pattern)),
        cache(cache_words) {}

  void encode_text(std::string_view text, std::vector<int32_t>& ids);
  void encode_normalized(std::string_view text, std::vector<int32_t>& ids);
  void encode_words(std::string_view text, std::vector<int32_t>& ids);
  void encode_new_word(std::string_view word, std::vector<int32_t>& ids);

  Tokenizer tokenizer;
  const TokenizerData& data;
  WordScanner scanner;
  WordCache cache;
  MergeScratch scratch;
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
  const TokenizerData& data = state_->data;
  const size_t before = ids.size();
  try {
    if (add_special_tokens) ids.insert(ids.end(), data.prefix_ids.begin(), data.prefix_ids.end());
    state_->encode_text(text, ids);
    if (add_special_tokens) ids.insert(ids.end(), data.suffix_ids.begin(), data.suffix_ids.end());
  } catch (...) {
    ids.resize(before);
    throw;
  }
}

void Encoder::State::encode_text(std::string_view text, std::vector<int32_t>& ids) {
  raw_parts.clear();
  data.raw_matcher.split(text, raw_parts);
  for (const TextPart& part : raw_parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else if (data.normalizer.changes_nothing()) {
      encode_normalized(part.text, ids);
    } else {
      encode_normalized(data.normalizer.apply(part.text), ids);
    }
  }
}

void Encoder::State::encode_normalized(std::string_view text, std::vector<int32_t>& ids) {
  normalized_parts.clear();
  data.normalized_matcher.split(text, normalized_parts);
  for (const TextPart& part : normalized_parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else if (data.byte_fallback) {
      scratch.symbols.clear();
      data.characters.append(part.text, scratch.symbols);
      data.model.merge_symbols(scratch, ids);
    } else if (data.add_prefix_space && part.text.front() != ' ') {
      encode_words(" " + std::string(part.text), ids);
    } else {
      encode_words(part.text, ids);
    }
  }
}

// Ids are gathered in a small buffer: an entry's eight ids are copied without asking how many
// count.
void Encoder::State::encode_words(std::string_view text, std::vector<int32_t>& ids) {
  std::array<int32_t, 1024> buffer;
  size_t filled = 0;
  const auto flush = [&] {
    ids.insert(ids.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(filled));
    filled = 0;
  };
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    const char* word = at;
    at = scanner(at, end);
    const size_t size = static_cast<size_t>(at - word);
    if (size <= WordCache::kMaxBytes) {
      const WordCache::Key key = WordCache::make_key(word, size, end);
      if (const WordCache::Entry* entry = cache.find(key)) {
        if (filled + WordCache::kMaxIds > buffer.size()) flush();
        std::copy_n(entry->ids.begin(), WordCache::kMaxIds, buffer.begin() + filled);
        filled += entry->num_ids();
        continue;
      }
      flush();
      const size_t before = ids.size();
      encode_new_word({word, size}, ids);
      const size_t num_ids = ids.size() - before;
      if (num_ids >= 1 && num_ids <= WordCache::kMaxIds)
        cache.insert(key, ids.data() + before, num_ids);
      continue;
    }
    flush();
    encode_new_word({word, size}, ids);
  }
  flush();
}

void Encoder::State::encode_new_word(std::string_view word, std::vector<int32_t>& ids) {
  if (data.ignore_merges) {
    if (const std::optional<int32_t> id = data.vocabulary.find_bytes(word)) {
      ids.push_back(*id);
      return;
    }
  }
  data.model.encode_word(word, scratch, ids);
}

}  // namespace megalith::text

// SPDX-License-Identifier: Apache-2.0
// Encoding with a byte-level vocabulary: any UTF-8 comes back, byte for byte, through every
// pattern; streamed decoding gives the same text; other bytes are refused. The words that a pattern
// cuts cover the text, and a safe cut falls between two of them. The first byte picks the pattern.
#include <array>
#include <numeric>

#include "base/fuzz/fuzz_input.h"
#include "characters/utf8.h"
#include "text/tokenizer.h"
#include "text_training/bpe_trainer.h"
#include "tokenize/split.h"

namespace {

using namespace megalith;

text::Tokenizer train(tokenize::SplitPattern pattern) {
  ThreadPool pool(1);
  text::BpeTrainer::Options options;
  options.vocab_size = 290;
  options.pattern = pattern;
  text::BpeTrainer trainer(options);
  const std::string_view document =
      "the cat's on the mat, they're 123 aaaa aaaa    \n\n  \xC3\xA9\xC3\xA9 \xE4\xB8\xAD\xE6\x96"
      "\x87 the cat's on the mat, isn't it? 2024 aaaaaaaa";
  trainer.add(std::span(&document, 1), pool);
  return trainer.train(pool);
}

void check_words(std::string_view text, tokenize::SplitPattern pattern) {
  const tokenize::WordScanner next = tokenize::word_scanner(pattern);
  const char* at = text.data();
  const char* const end = at + text.size();
  const size_t cut = text.empty() ? 0 : tokenize::find_safe_cut(text, text.size() / 2);
  MEGA_CHECK(text.empty() || (cut > 0 && cut <= text.size()));
  bool cut_between_words = text.empty() || cut == text.size();
  while (at < end) {
    const char* const behind = next(at, end);
    MEGA_CHECK(behind > at && behind <= end);
    at = behind;
    cut_between_words = cut_between_words || at == text.data() + cut;
  }
  MEGA_CHECK(cut_between_words);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::array tokenizers = {train(tokenize::SplitPattern::gpt2),
                                        train(tokenize::SplitPattern::llama3)};
  if (size == 0) return 0;
  const text::Tokenizer& tokenizer = tokenizers[data[0] & 1];
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  const bool valid = characters::find_invalid_utf8(text) == std::string_view::npos;
  const bool taken = fuzz::accepts([&] {
    const auto ids = tokenizer.encode(text, false);
    MEGA_CHECK(tokenizer.decode(ids, true) == text);
    text::StreamDecoder stream(tokenizer, true);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string piece = stream.push(id);
      MEGA_CHECK(characters::find_invalid_utf8(piece) == std::string_view::npos);
      streamed += piece;
    }
    MEGA_CHECK(streamed + stream.finish() == text);
    for (const auto pattern : {tokenize::SplitPattern::gpt2, tokenize::SplitPattern::llama3,
                               tokenize::SplitPattern::qwen2})
      check_words(text, pattern);
  });
  MEGA_CHECK_EQ(taken, valid);
  return 0;
}

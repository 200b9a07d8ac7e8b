// SPDX-License-Identifier: Apache-2.0
// A tokenizer through the keys of a GGUF file.
#pragma once

#include "base/fuzz/fuzz_input.h"
#include "vocabularies/gguf_vocabulary.h"
#include "vocabularies/gguf_writing.h"

namespace megalith::fuzz {

/// UserError where it cannot be written.
inline text::Tokenizer written_and_read(const text::Tokenizer& tokenizer) {
  auto written =
      vocabularies::write_gguf_vocabulary(tokenizer, {}, tokenizer.vocab_size() + 1, {0, {0}});
  gguf::Metadata keys(written.keys.begin(), written.keys.end());
  const auto id = [](int32_t value) { return gguf::Value::u32(static_cast<uint32_t>(value)); };
  keys.emplace("tokenizer.ggml.bos_token_id", id(*written.ends.begin));
  keys.emplace("tokenizer.ggml.eos_token_id", id(written.ends.end.front()));
  return vocabularies::read_gguf_vocabulary(keys, "written");
}

/// What came out of a file goes into one: the ids are the same.
inline void require_written_alike(const text::Tokenizer& read) {
  accepts([&] {
    const auto again = written_and_read(read);
    for (const std::string_view words : {"", "a", "  the cat's 123  <|endoftext|>\n\n x<s></s> ",
                                         "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x99\x82 \xE2\x96\x81"})
      accepts([&] { MEGA_CHECK(read.encode(words, true) == again.encode(words, true)); });
  });
}

}  // namespace megalith::fuzz

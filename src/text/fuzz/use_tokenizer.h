// SPDX-License-Identifier: Apache-2.0
// What every reader's fuzz target does with a tokenizer.
#pragma once

#include "base/fuzz/fuzz_input.h"
#include "text/tokenizer.h"

namespace megalith::fuzz {

/// The same texts before and after it was written and read; decoded whole and in a stream.
inline void use_tokenizer(const text::Tokenizer& tokenizer) {
  const auto again = text::Tokenizer::parse(tokenizer.to_json(), "again.json");
  MEGA_CHECK_EQ(again.vocab_size(), tokenizer.vocab_size());
  for (const std::string_view words : {"", "a", "  the cat's 123  <|endoftext|>\n\n x<s></s> ",
                                       "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x99\x82 \xE2\x96\x81"}) {
    accepts([&] {
      const auto ids = tokenizer.encode(words, true);
      MEGA_CHECK(ids == again.encode(words, true));
      for (const bool keep_special : {false, true}) {
        text::StreamDecoder stream(tokenizer, keep_special);
        std::string streamed;
        for (const int32_t id : ids) streamed += stream.push(id);
        MEGA_CHECK(streamed + stream.finish() == tokenizer.decode(ids, keep_special));
        MEGA_CHECK(tokenizer.decode(ids, keep_special) == again.decode(ids, keep_special));
      }
    });
  }
}

}  // namespace megalith::fuzz

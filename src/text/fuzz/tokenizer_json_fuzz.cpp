// SPDX-License-Identifier: Apache-2.0
// tokenizer.json. A file that is taken must encode and decode without harm, whole and streamed, and
// what it is written back as must be taken again.
#include "base/fuzz/fuzz_input.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  fuzz::accepts([&] {
    const auto tokenizer = text::Tokenizer::parse(fuzz::text_of(data, size), "tokenizer.json");
    const auto again = text::Tokenizer::parse(tokenizer.to_json(), "again.json");
    MEGA_CHECK_EQ(again.vocab_size(), tokenizer.vocab_size());
    for (const std::string_view words :
         {"", "a", "the cat's 123  <|endoftext|>\n\n x", "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x99\x82"}) {
      fuzz::accepts([&] {
        const auto ids = tokenizer.encode(words, true);
        MEGA_CHECK(ids == again.encode(words, true));
        for (const bool keep_special : {false, true}) {
          text::StreamDecoder stream(tokenizer, keep_special);
          std::string streamed;
          for (const int32_t id : ids) streamed += stream.push(id);
          MEGA_CHECK(streamed + stream.finish() == tokenizer.decode(ids, keep_special));
        }
      });
    }
    tokenizer.end_of_document();
  });
  return 0;
}

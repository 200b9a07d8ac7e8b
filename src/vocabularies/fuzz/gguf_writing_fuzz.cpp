// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json that is written into the keys of a GGUF file.
// One that can be written is read from the keys, and what was read is written as itself.
#include "base/fuzz/fuzz_input.h"
#include "text/fuzz/use_tokenizer.h"
#include "vocabularies/fuzz/write_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  fuzz::accepts([&] {
    const auto tokenizer = text::Tokenizer::parse(fuzz::text_of(data, size), "f");
    const auto again = fuzz::written_and_read(tokenizer);
    fuzz::use_tokenizer(again);
    fuzz::require_written_alike(again);
  });
  return 0;
}

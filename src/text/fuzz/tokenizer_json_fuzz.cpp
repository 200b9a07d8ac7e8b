// SPDX-License-Identifier: Apache-2.0
// tokenizer.json. A file that is taken must encode and decode without harm, whole and streamed, and
// what it is written back as must be taken again.
#include "base/fuzz/fuzz_input.h"
#include "text/fuzz/use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  fuzz::accepts([&] {
    const auto tokenizer = text::Tokenizer::parse(fuzz::text_of(data, size), "tokenizer.json");
    fuzz::use_tokenizer(tokenizer);
    tokenizer.end_of_document();
  });
  return 0;
}

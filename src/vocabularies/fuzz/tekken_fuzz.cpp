// SPDX-License-Identifier: Apache-2.0
// Mistral's tekken.json.
// One that is taken encodes and decodes without harm, and is the same when it was written as a
// tokenizer.json and read again.
#include "base/fuzz/fuzz_input.h"
#include "text/fuzz/use_tokenizer.h"
#include "vocabularies/tekken_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  using namespace megalith::vocabularies;
  fuzz::accepts([&] { fuzz::use_tokenizer(read_tekken(fuzz::text_of(data, size), "f")); });
  return 0;
}

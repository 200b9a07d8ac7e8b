// SPDX-License-Identifier: Apache-2.0
// A file of tiktoken ranks; the first byte says the pattern.
// One that is taken encodes and decodes without harm, and is the same when it was written as a
// tokenizer.json and read again.
#include "base/fuzz/fuzz_input.h"
#include "text/fuzz/use_tokenizer.h"
#include "vocabularies/tiktoken_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  using namespace megalith::vocabularies;
  if (size == 0) return 0;
  static const auto names = tiktoken_patterns();
  fuzz::accepts([&] {
    fuzz::use_tokenizer(
        read_tiktoken(fuzz::text_of(data + 1, size - 1), names[data[0] % names.size()], "f"));
  });
  return 0;
}

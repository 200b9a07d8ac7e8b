// SPDX-License-Identifier: Apache-2.0
// The tokenizer inside a GGUF file.
// One that is taken encodes and decodes without harm, and is the same when it was written as a
// tokenizer.json and read again, or written into the keys of a file.
#include "base/fuzz/fuzz_input.h"
#include "gguf/reader.h"
#include "text/fuzz/use_tokenizer.h"
#include "vocabularies/fuzz/write_tokenizer.h"
#include "vocabularies/gguf_vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  using namespace megalith::vocabularies;
  static const fuzz::ScratchFolder scratch;
  const auto path = scratch.put("input.gguf", fuzz::text_of(data, size));
  fuzz::accepts([&] {
    const gguf::Reader file(path);
    gguf_texts(file.metadata());
    gguf_template_keys(gguf_texts(file.metadata()));
    const text::Tokenizer tokenizer = read_gguf_vocabulary(file.metadata(), "f");
    fuzz::use_tokenizer(tokenizer);
    fuzz::require_written_alike(tokenizer);
  });
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Any bytes as the output of a model: decoding whole and decoding byte by byte give the same text,
// which is always UTF-8, and no piece ends within a character.
#include "base/fuzz/fuzz_input.h"
#include "characters/utf8.h"
#include "text/tokenizer.h"
#include "text/tokenizer_fixture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const text::Tokenizer bytes = text::parse(text::small_tokenizer({}));  // id = byte
  std::vector<int32_t> ids(data, data + size);
  const std::string whole = bytes.decode(ids);
  MEGA_CHECK(characters::find_invalid_utf8(whole) == std::string_view::npos);
  if (characters::find_invalid_utf8(fuzz::text_of(data, size)) == std::string_view::npos)
    MEGA_CHECK(whole == fuzz::text_of(data, size));
  text::StreamDecoder stream(bytes);
  std::string streamed;
  for (const int32_t id : ids) {
    const std::string piece = stream.push(id);
    MEGA_CHECK(characters::find_invalid_utf8(piece) == std::string_view::npos);
    streamed += piece;
  }
  streamed += stream.finish();
  MEGA_CHECK(streamed == whole);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// What `pack` reads: plain, gzip or zstd bytes, cut into documents in each of the four ways. The
// first byte picks the way. Output is bounded: a small file that unpacks to a large one is read in
// parts and left after a mebibyte.
#include "base/fuzz/fuzz_input.h"
#include "characters/utf8.h"
#include "data/byte_source.h"
#include "data/document_chunks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  constexpr int64_t kEnough = 1 << 20;
  static const fuzz::ScratchFolder scratch;
  if (size == 0) return 0;
  const auto cut = static_cast<data::Cut>(data[0] & 3);
  const auto path = scratch.put("input", fuzz::text_of(data + 1, size - 1));
  fuzz::accepts([&] {
    data::ChunkReader reader(data::open_source(path), "input", cut, kEnough);
    data::DocumentParser parser("text");
    int64_t bytes = 0;
    for (data::Chunk chunk; bytes < kEnough && reader.next(chunk);) {
      bytes += chunk.size();
      parser.for_each(chunk, [](std::string_view document) {
        MEGA_CHECK(characters::find_invalid_utf8(document) == std::string_view::npos);
      });
    }
  });
  return 0;
}

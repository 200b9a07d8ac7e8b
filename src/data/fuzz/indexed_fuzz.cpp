// SPDX-License-Identifier: Apache-2.0
// A corpus: u16 length of the .idx part, the .idx, the .bin. Opened, then read whole in every way
// the program does.
#include <algorithm>
#include <cstring>

#include "base/fuzz/fuzz_input.h"
#include "data/fingerprint.h"
#include "data/indexed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  constexpr int64_t kVocab = 1000;
  static const fuzz::ScratchFolder scratch;
  uint16_t head = 0;
  if (size < sizeof head) return 0;
  std::memcpy(&head, data, sizeof head);
  const std::string_view rest = fuzz::text_of(data + sizeof head, size - sizeof head);
  const size_t index_bytes = std::min<size_t>(head, rest.size());
  scratch.put("corpus.idx", rest.substr(0, index_bytes));
  scratch.put("corpus.bin", rest.substr(index_bytes));
  scratch.put("corpus.fingerprint", rest);
  fuzz::accepts([&] {
    const data::IndexedDataset corpus(scratch.path() / "corpus");
    const File idx(scratch.path() / "corpus.idx", File::Mode::read);
    const File bin(scratch.path() / "corpus.bin", File::Mode::read);
    corpus.fingerprint_of_ends();
    data::kept_fingerprint(scratch.path() / "corpus", data::stamp_of(idx, bin));
    const bool whole = fuzz::accepts([&] { corpus.verify(kVocab); });
    // Damage that opening does not look for is met where it is read.
    const auto tokens = std::min<int64_t>(corpus.num_tokens(), 1 << 16);
    std::vector<int32_t> ids(static_cast<size_t>(tokens));
    const bool read = fuzz::accepts([&] { corpus.read(0, ids, kVocab); });
    MEGA_CHECK(read || !whole);
    for (int64_t d = 0; d <= std::min<int64_t>(corpus.num_documents(), 64); ++d) {
      const bool found = fuzz::accepts([&] {
        const int64_t begin = corpus.document_begin(d);
        MEGA_CHECK(begin >= 0 && begin <= corpus.num_tokens());
      });
      MEGA_CHECK(found || !whole);
    }
    for (int64_t t = 0; t < std::min<int64_t>(tokens, 64); ++t)
      MEGA_CHECK(fuzz::accepts([&] { corpus.document_of(t); }) || !whole);
  });
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Words with tags, as JSON lines or columns. Of the first byte one bit picks which, one what
// becomes of texts that are longer than a sample.
#include "base/fuzz/fuzz_input.h"
#include "text/tokenizer_fixture.h"
#include "tune/tagged_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const fuzz::ScratchFolder scratch;
  static const text::Tokenizer tokenizer =
      text::parse(text::small_wordpiece({"the", "cat", "##s", "sees"}));
  static const std::vector<std::string> labels{"O", "B-X", "I-X"};
  constexpr int64_t kMostTokens = 12;
  if (size == 0) return 0;
  const char* const name = (data[0] & 1) != 0 ? "tags.jsonl" : "tags.conll";
  const auto overlong = (data[0] & 2) != 0 ? config::Overlong::truncate : config::Overlong::drop;
  const std::string file = scratch.put(name, fuzz::text_of(data + 1, size - 1)).string();
  fuzz::accepts([&] {
    tune::ExampleCounts counts;
    const std::vector<tune::Example> examples =
        tune::read_tagged({file}, tokenizer, labels, {"tune.data", kMostTokens, overlong}, counts);
    MEGA_CHECK_LE(std::ssize(examples), counts.lines);
    for (const tune::Example& example : examples) {
      MEGA_CHECK_LE(example.tokens(), kMostTokens);
      MEGA_CHECK_EQ(example.labels.size(), example.ids.size());
      bool says = false;
      for (const int32_t label : example.labels) {
        MEGA_CHECK(label >= -1 && label < std::ssize(labels));
        says = says || label >= 0;
      }
      MEGA_CHECK(says);
    }
  });
  return 0;
}

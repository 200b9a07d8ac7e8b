// SPDX-License-Identifier: Apache-2.0
// A line for `evaluate score`.
#include "base/fuzz/fuzz_input.h"
#include "text/score_line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  fuzz::accepts([&] {
    const auto content = text::parse_score_line(fuzz::text_of(data, size));
    if (const auto* const ids = std::get_if<std::vector<int32_t>>(&content)) {
      for (const int32_t id : *ids) MEGA_CHECK_GE(id, 0);
    }
  });
  return 0;
}

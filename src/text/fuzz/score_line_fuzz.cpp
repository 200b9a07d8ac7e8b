// SPDX-License-Identifier: Apache-2.0
// A line for `evaluate score`.
#include "base/fuzz/fuzz_input.h"
#include "text/score_line.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  fuzz::accepts([&] {
    const text::ScoreLine line = text::parse_score_line(fuzz::text_of(data, size));
    for (const int32_t id : line.ids) MEGA_CHECK_GE(id, 0);
    for (const int32_t type : line.type_ids) MEGA_CHECK_GE(type, 0);
  });
  return 0;
}

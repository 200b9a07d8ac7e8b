// SPDX-License-Identifier: Apache-2.0
// Files of token ids.
#include "base/fuzz/fuzz_input.h"
#include "text/ids_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  fuzz::accepts([&] {
    for (const int32_t id : text::parse_ids_json(fuzz::text_of(data, size), "ids.json"))
      MEGA_CHECK_GE(id, 0);
  });
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// A safetensors file: opened, and every tensor of it read.
#include "base/fuzz/fuzz_input.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const fuzz::ScratchFolder scratch;
  const auto path = scratch.put("input.safetensors", fuzz::text_of(data, size));
  fuzz::accepts([&] {
    const checkpoint::SafetensorsFile file(path);
    std::vector<std::byte> bytes;
    int64_t sum = 0;
    for (const checkpoint::SafetensorsEntry& entry : file.entries()) {
      MEGA_CHECK(entry.bytes >= 0 && file.find(entry.name) != nullptr);
      bytes.resize(static_cast<size_t>(entry.bytes));  // the file holds them: checked at opening
      file.read(entry, 0, entry.bytes, bytes.data());
      sum += entry.bytes;
    }
    MEGA_CHECK_LE(sum, static_cast<int64_t>(size));
  });
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json of a Hugging Face folder with two shards.
#include "base/fuzz/fuzz_input.h"
#include "checkpoint/safetensors_folder.h"

namespace {
std::string one_tensor(const std::string& name) {
  std::string header = "{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + "xy";
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const fuzz::ScratchFolder scratch;
  static const auto one = scratch.put("one.safetensors", one_tensor("a"));
  static const auto two = scratch.put("two.safetensors", one_tensor("b"));
  scratch.put("model.safetensors.index.json", fuzz::text_of(data, size));
  fuzz::accepts([&] {
    const checkpoint::SafetensorsFolder folder(scratch.path());
    MEGA_CHECK(folder.find("a") != nullptr || folder.find("b") != nullptr || size > 0);
  });
  return 0;
}

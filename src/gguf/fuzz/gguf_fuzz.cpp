// SPDX-License-Identifier: Apache-2.0
// A GGUF file: opened, every value asked for as everything, every tensor read and widened; what was
// taken is written and must come back the same.
#include "base/file.h"
#include "base/fuzz/fuzz_input.h"
#include "gguf/reader.h"
#include "gguf/widen.h"
#include "gguf/writer.h"

namespace {

using namespace megalith;

void ask_for_everything(const gguf::Value& value) {
  const bool one = value.integer() || value.number() || value.boolean() || value.text();
  const bool many = value.integers() || value.numbers() || value.booleans() || value.texts();
  MEGA_CHECK(!(one && value.is_array()) && !(many && !value.is_array()) && !value.kind().empty());
  if (const auto texts = value.texts())
    MEGA_CHECK_EQ(static_cast<int64_t>(texts->size()), value.count());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::ScratchFolder scratch;
  const auto path = scratch.put("input.gguf", fuzz::text_of(data, size));
  fuzz::accepts([&] {
    const gguf::Reader file(path);
    gguf::OrderedMetadata metadata;
    for (const auto& [key, value] : file.metadata()) {
      ask_for_everything(value);
      if (key != "general.alignment") metadata.emplace_back(key, value);
    }
    std::vector<gguf::TensorContent> tensors;
    for (const gguf::TensorEntry& entry : file.tensors()) {
      std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes));  // the file has them: checked
      file.read(entry, 0, entry.bytes, bytes.data());
      if (gguf::can_widen(entry.type)) {
        std::vector<float> values(static_cast<size_t>(entry.shape.num_elements()));
        gguf::widen(entry.type, bytes, values);
      }
      tensors.push_back(
          {entry.name, entry.type, entry.shape,
           [bytes = std::move(bytes)](gguf::TensorContent::Sink sink) { sink(bytes); }});
    }
    gguf::write_file(scratch.path() / "output.gguf", metadata, tensors);
    const gguf::Reader again(scratch.path() / "output.gguf");
    MEGA_CHECK_EQ(again.metadata().size(), metadata.size());
    for (const auto& [key, value] : metadata) MEGA_CHECK(again.metadata().at(key) == value);
    MEGA_CHECK_EQ(again.tensors().size(), tensors.size());
    for (const gguf::TensorEntry& entry : file.tensors()) {
      const gguf::TensorEntry* copy = again.find(entry.name);
      MEGA_CHECK(copy != nullptr && copy->shape == entry.shape && copy->type == entry.type);
    }
  });
  return 0;
}

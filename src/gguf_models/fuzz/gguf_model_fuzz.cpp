// SPDX-License-Identifier: Apache-2.0
// What a GGUF file says of its model. What is taken has sizes that multiply without overflow, and
// what can be written of it reads back as the same model.
#include "base/fuzz/fuzz_input.h"
#include "gguf/reader.h"
#include "gguf_models/model_description.h"

namespace {

using namespace megalith;

gguf_models::ModelDescription description_of(const gguf::Reader& file) {
  gguf_models::ModelDescription description;
  description.metadata = file.metadata();
  for (const gguf::TensorEntry& entry : file.tensors()) {
    description.tensors.insert(entry.name);
    if (entry.name == "token_embd.weight" && entry.shape.num_dims() == 2)
      description.vocab_rows = entry.shape[0];
    const bool is_factors = std::ranges::count(gguf_models::kFactorTensors, entry.name) > 0;
    if (!is_factors || entry.type != gguf::TensorType::f32) continue;
    std::vector<float> values(static_cast<size_t>(entry.shape.num_elements()));
    file.read(entry, 0, entry.bytes, values.data());
    description.factors.emplace(entry.name, std::move(values));
  }
  return description;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::ScratchFolder scratch;
  const auto path = scratch.put("input.gguf", fuzz::text_of(data, size));
  fuzz::accepts([&] {
    const gguf::Reader file(path);
    const gguf_models::ModelDescription description = description_of(file);
    const auto model = gguf_models::read_model(description, "input.gguf");
    MEGA_CHECK_GT(model.num_parameters(), 0);
    // So many layers and so few tensors: whoever reads the weights refuses them.
    if (model.num_layers() > static_cast<int64_t>(file.tensors().size()))
      throw UserError("more layers than tensors");
    gguf_models::special_ids(description.metadata, model.vocab);
    gguf_models::describe(model);  // compares what reads back
  });
  return 0;
}

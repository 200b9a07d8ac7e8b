// SPDX-License-Identifier: Apache-2.0
#include "testing/toy_blocks.h"

#include <bit>
#include <cstring>

#include "models/foreign_map.h"
#include "tensor/blocks.h"
#include "testing/toy_model.h"

namespace megalith::testing {

engine::Settings toy_wide_settings(bool llama) {
  engine::Settings settings = llama ? toy_llama_settings() : toy_settings();
  const models::Sizes sizes{.layers = 3,
                            .hidden = 128,
                            .heads = 4,
                            .kv_heads = llama ? 2 : 0,
                            .ffn = 128,
                            .context = 16,
                            .vocab = 100};
  const double dropout = settings.model.dropout, init_std = settings.model.init_std;
  settings.model = llama ? models::llama(sizes) : models::gpt2(sizes);
  settings.model.dropout = dropout;
  settings.model.init_std = init_std / 2;
  return settings;
}

parameters::StorageFormats toy_formats(const models::ModelSpec& model, Format format) {
  parameters::StorageFormats formats;
  for (const models::DeclaredTensor& tensor : models::declared_tensors(model))
    if (tensor.may_be_in_blocks) formats.emplace(tensor.name, format);
  return formats;
}

void fill_blocks(parameters::ParameterSet& set, device::Device& device) {
  for (parameters::Parameter& parameter : set.all()) {
    const Format format = parameter.format();
    if (is_plain(format)) continue;
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    parameters::initial_value(parameter, 3, DType::f32, values.data());
    const auto each = static_cast<size_t>(block_bytes(format));
    const size_t head = has_least(format) ? 4 : 2, count = values.size() / kBlockColumns;
    const f16_t scale = to_f16(0x1p-9F), least = to_f16(-0x1p-6F);
    std::vector<std::byte> blocks(count * each);
    for (size_t b = 0; b < count; ++b) {
      std::byte* const block = blocks.data() + b * each;
      std::memcpy(block, &scale, sizeof scale);
      if (has_least(format)) std::memcpy(block + 2, &least, sizeof least);
      for (size_t j = head; j < each; ++j)
        block[j] = static_cast<std::byte>(
            std::bit_cast<uint32_t>(values[b * kBlockColumns + j % kBlockColumns]) >> 9);
    }
    set.load_blocks(device, parameter, blocks);
  }
}

std::vector<float> numbers_of(const Weight& weight) {
  std::vector<float> numbers(static_cast<size_t>(weight.shape.num_elements()));
  for (int64_t i = 0; i < weight.shape.num_elements(); i += kBlockColumns)
    widen_block(weight, i / weight.shape[1], i % weight.shape[1] / kBlockColumns,
                numbers.data() + i);
  return numbers;
}

}  // namespace megalith::testing

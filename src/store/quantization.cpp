// SPDX-License-Identifier: Apache-2.0
#include "store/quantization.h"

#include "base/error.h"
#include "gguf/widen.h"
#include "optim/adamw.h"
#include "store/fp8_tensors.h"
#include "tensor/blocks.h"

namespace megalith::store {
namespace {

using gguf::TensorType;

struct NamedType {
  std::string_view name;
  TensorType type;
};
constexpr NamedType kTypes[] = {{"f32", TensorType::f32},   {"bf16", TensorType::bf16},
                                {"f16", TensorType::f16},   {"q8_0", TensorType::q8_0},
                                {"q4_0", TensorType::q4_0}, {"q4_1", TensorType::q4_1}};

bool has_4_bits(TensorType type) { return type == TensorType::q4_0 || type == TensorType::q4_1; }

}  // namespace

std::optional<Format> format_of(TensorType type) {
  switch (type) {
    case TensorType::q8_0:
      return Format::q8_0;
    case TensorType::q4_0:
      return Format::q4_0;
    case TensorType::q4_1:
      return Format::q4_1;
    default:
      return std::nullopt;
  }
}

TensorType type_of(Format format) {
  MEGA_CHECK(!is_plain(format) && format != Format::fp8, "{} is no type of a GGUF file", format);
  return format == Format::q8_0   ? TensorType::q8_0
         : format == Format::q4_0 ? TensorType::q4_0
                                  : TensorType::q4_1;
}

std::optional<TensorType> written_type(std::string_view name) {
  for (const NamedType& named : kTypes)
    if (named.name == name) return named.type;
  return std::nullopt;
}

TensorChoice parse_choice(std::string_view text) {
  const size_t sign = text.rfind('=');
  if (sign != std::string_view::npos && sign > 0) {
    if (const auto type = written_type(text.substr(sign + 1)))
      return {std::string(text.substr(0, sign)), *type};
  }
  throw UserError(
      "'{}' is not PATTERN=TYPE with a type of f32, bf16, f16, q8_0, q4_0 or q4_1, as in "
      "blk.*.ffn_down.weight=q8_0",
      text);
}

std::optional<TensorType> Quantization::type_for(std::string_view name,
                                                 bool is_of_vocabulary) const {
  for (auto choice = choices.rbegin(); choice != choices.rend(); ++choice)
    if (optim::matches(choice->pattern, name)) return choice->type;
  if (is_of_vocabulary && matrices && has_4_bits(*matrices)) return TensorType::q8_0;
  return matrices;
}

parameters::StorageFormats formats_in_blocks(const models::ModelSpec& spec, int tensor_shards,
                                             Format format) {
  parameters::StorageFormats formats;
  if (format == Format::fp8) {
    for (const models::DeclaredTensor& tensor : models::declared_tensors(spec, tensor_shards))
      if (may_be_in_fp8(tensor, tensor_shards)) formats.emplace(tensor.name, format);
    return formats;
  }
  const Quantization quantization{type_of(format), {}};
  for (const models::DeclaredTensor& tensor : models::declared_tensors(spec, tensor_shards)) {
    if (!tensor.may_be_in_blocks || tensor.shape[1] % kBlockColumns != 0) continue;
    const bool is_of_vocabulary = tensor.name == "embedding.weight" || tensor.name == "head.weight";
    const auto type = quantization.type_for(tensor.name, is_of_vocabulary);
    formats.emplace(tensor.name, format_of(type.value()).value());
  }
  return formats;
}

bool may_be_in_fp8(const models::DeclaredTensor& tensor, int tensor_shards) {
  if (!tensor.is_layer_product || tensor.shape[1] % kBlockColumns != 0) return false;
  // Where columns are cut at all, they are so.
  const bool is_cut = tensor.shape[1] % tensor_shards == 0;
  return !is_cut || tensor.shape[1] / tensor_shards % kCodeColumns == 0;
}

std::optional<std::vector<std::byte>> to_blocks(Format format, std::span<const float> values,
                                                int64_t columns) {
  if (format == Format::fp8) return to_fp8(values, columns);
  std::vector<std::byte> blocks(values.size() / static_cast<size_t>(kBlockColumns) *
                                static_cast<size_t>(block_bytes(format)));
  if (!gguf::narrow(type_of(format), values, blocks)) return std::nullopt;
  return blocks;
}

}  // namespace megalith::store

// SPDX-License-Identifier: Apache-2.0
// Which weights are stored in blocks (tensor/blocks.h): in a GGUF file that is written, and in
// memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/tensor_type.h"
#include "models/foreign_map.h"
#include "parameters/parameter.h"
#include "spec/model_spec.h"
#include "tensor/weight.h"

namespace megalith::store {

/// Of the formats that are read in blocks; nothing for others.
std::optional<Format> format_of(gguf::TensorType type);
/// Of a format in blocks; fp8 is none of GGUF's.
gguf::TensorType type_of(Format format);

/// f32, bf16, f16, q8_0, q4_0 or q4_1: what matrices of a file are written as. Nothing for others.
std::optional<gguf::TensorType> written_type(std::string_view name);

/// What tensors whose name matches a glob are stored as.
struct TensorChoice {
  std::string pattern;
  gguf::TensorType type = gguf::TensorType::f32;
};
/// "blk.*.ffn_down.weight=q8_0": f32, bf16, f16, q8_0, q4_0 or q4_1. UserError otherwise.
TensorChoice parse_choice(std::string_view text);

/// How the matrices of a model are stored.
struct Quantization {
  std::optional<gguf::TensorType> matrices;  // nothing: as they are
  std::vector<TensorChoice> choices;         // the last that matches counts

  /// Of a matrix. Tables of tokens and of logits get 8 bits where others have 4: they are what a
  /// text depends on most.
  std::optional<gguf::TensorType> type_for(std::string_view name, bool is_of_vocabulary) const;
};

/// The weights of a model that products read and whose rows are whole blocks, in this format; of
/// tables of tokens and logits see above, and in fp8 those of layers alone.
parameters::StorageFormats formats_in_blocks(const models::ModelSpec& spec, int tensor_shards,
                                             Format format);
/// Whether kernels hold this weight in fp8: a layer's product, whole steps of codes in each of the
/// canonical shards.
bool may_be_in_fp8(const models::DeclaredTensor& tensor, int tensor_shards);
/// Rows of numbers, whole blocks each, rounded as a GGUF file's are, in fp8 as to_fp8() does
/// (fp8_tensors.h). Nothing where the format cannot hold one.
std::optional<std::vector<std::byte>> to_blocks(Format format, std::span<const float> values,
                                                int64_t columns);

}  // namespace megalith::store

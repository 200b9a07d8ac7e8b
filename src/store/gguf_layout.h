// SPDX-License-Identifier: Apache-2.0
// What a GGUF file holds otherwise than a Hugging Face folder, tensor by tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "gguf_models/architecture.h"
#include "models/foreign_map.h"

namespace megalith::store {

/// The rows of a head in the order of the pairs that turn: row 2i is row i of the head, row 2i + 1
/// its row i + head_dim / 2 (llama.cpp's conversion/llama.py, permute). 0: the rows of the tensor
/// stay as they are.
int64_t paired_head_dim(const gguf_models::Architecture& architecture,
                        const models::ModelSpec& spec, std::string_view foreign_name);
/// Between that order and ours, in place; `rows` whole heads of equal rows.
void pair_rows(std::span<std::byte> rows, int64_t count, int64_t head_dim);
void unpair_rows(std::span<std::byte> rows, int64_t count, int64_t head_dim);

/// What the file's values of this parameter of ours are larger by: a norm's offset, which it adds
/// to the weights.
float stored_offset(const models::ModelSpec& spec, std::string_view our_name);

}  // namespace megalith::store

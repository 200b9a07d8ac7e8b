// SPDX-License-Identifier: Apache-2.0
// Rotary positions in GGUF files. Scalings: linear and yarn by keys; llama3 by the tensor
// rope_freqs.weight, one factor for each pair of a head by which its frequency is divided; longrope
// by two such tensors. The settings behind the factors of llama3 are not stored: those of Llama 3
// are tried (low 1, high 4, from a context of 8192 unless a key says otherwise), and other factors
// refused.
#pragma once

#include "gguf_models/model_description.h"

namespace megalith::gguf_models {

/// `context`: the model's. rope: in, the family's own; its base and dimension where the file has
/// none.
layers::RopeSpec read_rope(const MetadataKeys& keys, const ModelDescription& description,
                           int64_t context, const layers::RopeSpec& usual);
/// UserError for a scaling that the format does not have.
void write_rope(const layers::RopeSpec& rope, int64_t context, KeyWriter& keys,
                WrittenDescription& written);

}  // namespace megalith::gguf_models

// SPDX-License-Identifier: Apache-2.0
// A model in a GGUF file: what it says of itself, and its weights under our names. Quantised
// weights are widened to f32 when they are read, but for those that are asked for in blocks.
#pragma once

#include <filesystem>
#include <memory>

#include "gguf/reader.h"
#include "gguf_models/model_description.h"
#include "store/stored_weights.h"

namespace megalith::store {

/// All but the weights. Reads the tensors of rotary factors, which are part of it.
gguf_models::ModelDescription describe_gguf(const gguf::Reader& file);

/// IntegrityError when a tensor of the model is missing, misshapen, or one too many; UserError for
/// a type that is not read.
std::unique_ptr<Weights> gguf_weights(std::shared_ptr<const gguf::Reader> file,
                                      const models::ModelSpec& spec, int tensor_shards);

}  // namespace megalith::store

// SPDX-License-Identifier: Apache-2.0
// A model as a Hugging Face folder: the family's own tensors and config.json, shards with their
// index, tokenizer files. Weights in FP8 are matrices of codes e4m3 [O, I] beside NAME_scale, f32
// [O, 1], with a quantization_config of compressed-tensors, which vLLM and transformers read.
#pragma once

#include <filesystem>
#include <optional>

#include "store/convert.h"
#include "store/model_source.h"

namespace megalith::store {

struct HuggingFaceForm {
  std::optional<DType> dtype;  // of what is not in FP8; nothing: as it is stored
  Fp8Weights fp8 = Fp8Weights::as_stored;
  int64_t shard_bytes = kShardBytes;
};

/// `target` is free. UserError where a family's products are stored transposed (GPT-2), which no
/// reader takes in FP8, and where a weight cannot be in FP8.
ConvertResult write_hugging_face(const ModelSource& source, const std::filesystem::path& target,
                                 const HuggingFaceForm& form);

}  // namespace megalith::store

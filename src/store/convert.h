// SPDX-License-Identifier: Apache-2.0
// Copies a model from one format to another, tensor by tensor: a Hugging Face folder (transformers'
// names and layout), a checkpoint folder with weights only, or a GGUF file. Storage types stay
// unless another is asked for, so that there and back gives the same bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "store/quantization.h"

namespace megalith::store {

struct ConvertResult {
  int64_t tensors = 0;     // written
  int64_t parameters = 0;  // tied ones once, padding not counted
  /// The state digest of the written weights (checkpoint/state_digest.h) under our names and in our
  /// layout: equal for equal weights, whatever the format.
  std::string sha256;
};

/// Hugging Face folders larger than this are cut into shards (bytes of tensors).
inline constexpr int64_t kShardBytes = 5'000'000'000;

/// What a GGUF file gets of the tokenizer.
enum class Tokenizers {
  carried,
  left_out,  // the weights alone
};

/// Which weights of a Hugging Face folder are written in FP8.
enum class Fp8Weights : uint8_t {
  as_stored,  // those that the source has so, unless another type is asked for
  all,        // those of layers' products
};

/// `from` is anything ModelSource opens; `to` must not exist (for a folder, an empty one may), and
/// appears whole or not at all. `format` is "megalith", "hf" or "gguf"; `dtype` "f32", "bf16",
/// "f16", of a GGUF file also "q8_0", "q4_0" and "q4_1" (write_gguf.h), or "" for the types as they
/// are; `choices`, of a GGUF file alone, are exceptions from it (quantization.h). All tokenizer
/// files are carried along. `adapter`: a folder of PEFT's to merge into the weights
/// (merged_weights.h); empty: none. `fp8`, of Hugging Face folders: see write_hugging_face.h.
/// Memory: two copies of the largest tensor. UserError for an unusable `to`, `format` or `dtype`,
/// and for a tokenizer that a GGUF file cannot express; IntegrityError for a damaged source.
ConvertResult convert(const std::filesystem::path& from, const std::filesystem::path& to,
                      std::string_view format, std::string_view dtype,
                      int64_t shard_bytes = kShardBytes, Tokenizers tokenizer = Tokenizers::carried,
                      std::vector<TensorChoice> choices = {},
                      const std::filesystem::path& adapter = {},
                      Fp8Weights fp8 = Fp8Weights::as_stored);

}  // namespace megalith::store

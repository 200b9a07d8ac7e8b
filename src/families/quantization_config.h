// SPDX-License-Identifier: Apache-2.0
// quantization_config of a config.json, both ways, of weights in FP8 as vLLM and transformers have
// them: `fp8`, whose tensors have a scale each or one for each block, and `compressed-tensors`,
// where a scale is a tensor's, a row's or a block's. Other kinds, and what would round more than
// weights and inputs of products, are refused by name.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace megalith::models {

/// Weights are codes e4m3 beside tensors of scales; which weights, their types say.
struct Fp8Config {
  /// Rows and columns that share a scale where a tensor has more than one for each row; 0: none
  /// has.
  int64_t block_rows = 0;
  int64_t block_columns = 0;
  friend bool operator==(const Fp8Config&, const Fp8Config&) = default;
};

/// UserError naming the key.
Fp8Config parse_quantization_config(const nlohmann::json& json, const std::string& where);

/// Of products whose weights have a scale for each row and whose inputs are not rounded, but those
/// of the modules named.
nlohmann::ordered_json quantization_config(const std::vector<std::string>& ignored);

}  // namespace megalith::models

// SPDX-License-Identifier: Apache-2.0
#include "gguf_models/architecture_rows.h"

namespace megalith::gguf_models {
namespace other_architectures {

constexpr auto kLlamaRows =
    joined(kModelRows, kSplitAttentionRows, kOutputRows, kGatedRows, kPreNormRows);
constexpr auto kQwen3Rows =
    joined(kModelRows, kSplitAttentionRows, kOutputRows, kHeadNormRows, kGatedRows, kPreNormRows);

/// One tensor for gates and ups, gates first.
constexpr ForeignRow kFusedGateRows[] = {
    {"layers.*.mlp.gate_up.weight",
     {{"blk.*.ffn_up.weight", Part::gate}, {"blk.*.ffn_up.weight", Part::up}}},
};
constexpr auto kPhi3Rows =
    joined(kModelRows, kFusedAttentionRows, kOutputRows, kFusedGateRows, kPreNormRows);

/// Norms of outputs alone.
constexpr ForeignRow kOlmo2NormRows[] = {
    {"layers.*.norm_1.weight", {{"blk.*.post_attention_norm.weight", Part::rows}}},
    {"layers.*.norm_2.weight", {{"blk.*.post_ffw_norm.weight", Part::rows}}},
};
constexpr auto kOlmo2Rows =
    joined(kModelRows, kSplitAttentionRows, kOutputRows, kHeadNormRows, kGatedRows, kOlmo2NormRows);
constexpr auto kStarcoder2Rows =
    joined(kModelRows, kSplitAttentionRows, kOutputRows, kPlainRows, kPreNormRows, kNormBiasRows);
constexpr auto kGptNeoxRows =
    joined(kModelRows, kFusedAttentionRows, kOutputRows, kPlainRows, kPreNormRows, kNormBiasRows);
constexpr auto kGpt2Rows = joined(kModelRows, kPositionRows, kFusedAttentionRows, kOutputRows,
                                  kPlainRows, kPreNormRows, kNormBiasRows);

void read_phi3(const MetadataKeys& keys, ModelSpec& model) {
  const int64_t window = keys.count("attention.sliding_window", 0);
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.attention.window = window; });
}

/// Always there: llama.cpp tells Phi-4 from Phi-3 by a 0.
void write_phi3(const ModelSpec& model, KeyWriter& keys) {
  keys.add_count("attention.sliding_window", model.layers.front().attention.window);
}

void read_gpt_neox(const MetadataKeys& keys, ModelSpec& model) {
  const bool parallel = keys.boolean("use_parallel_residual", true);
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.parallel = parallel; });
}

void write_gpt_neox(const ModelSpec& model, KeyWriter& keys) {
  keys.add("use_parallel_residual", gguf::Value::boolean(model.layers.front().parallel));
}

}  // namespace other_architectures

const Architecture kLlama{
    "llama", "llama", {other_architectures::kLlamaRows, kFactorTensors, ""}, true};
const Architecture kQwen2{"qwen2", "qwen2", {other_architectures::kLlamaRows, kFactorTensors, ""}};
const Architecture kQwen3{"qwen3", "qwen3", {other_architectures::kQwen3Rows, kFactorTensors, ""}};
const Architecture kPhi3{"phi3",
                         "phi3",
                         {other_architectures::kPhi3Rows, kFactorTensors, ""},
                         false,
                         other_architectures::read_phi3,
                         other_architectures::write_phi3};
const Architecture kOlmo2{"olmo2", "olmo2", {other_architectures::kOlmo2Rows, kFactorTensors, ""}};
const Architecture kStarcoder2{
    "starcoder2", "starcoder2", {other_architectures::kStarcoder2Rows, kFactorTensors, ""}};
const Architecture kGptNeox{"gptneox",
                            "gpt_neox",
                            {other_architectures::kGptNeoxRows, kFactorTensors, ""},
                            false,
                            other_architectures::read_gpt_neox,
                            other_architectures::write_gpt_neox};
const Architecture kGpt2{"gpt2", "gpt2", {other_architectures::kGpt2Rows, kFactorTensors, ""}};

}  // namespace megalith::gguf_models

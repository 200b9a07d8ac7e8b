// SPDX-License-Identifier: Apache-2.0
// Rows of tables of tensors that several families have: those of Llama's names.
#pragma once

#include <algorithm>
#include <array>

#include "families/foreign_table.h"

namespace megalith::models {

inline constexpr ForeignRow kModelRows[] = {
    {"embedding.weight", {{"model.embed_tokens.weight", Part::rows}}},
    {"final_norm.weight", {{"model.norm.weight", Part::rows}}},
    {"head.weight", {{"lm_head.weight", Part::rows}}},
};
inline constexpr ForeignRow kSplitAttentionRows[] = {
    {"layers.*.attention.qkv.weight",
     {{"model.layers.*.self_attn.q_proj.weight", Part::query},
      {"model.layers.*.self_attn.k_proj.weight", Part::key},
      {"model.layers.*.self_attn.v_proj.weight", Part::value}}},
    {"layers.*.attention.qkv.bias",
     {{"model.layers.*.self_attn.q_proj.bias", Part::query},
      {"model.layers.*.self_attn.k_proj.bias", Part::key},
      {"model.layers.*.self_attn.v_proj.bias", Part::value}}},
    {"layers.*.attention.output.weight", {{"model.layers.*.self_attn.o_proj.weight", Part::rows}}},
    {"layers.*.attention.output.bias", {{"model.layers.*.self_attn.o_proj.bias", Part::rows}}},
};
/// Norms of queries and keys, of each head or of all: their heads are in our order.
inline constexpr ForeignRow kHeadNormRows[] = {
    {"layers.*.attention.q_norm.weight", {{"model.layers.*.self_attn.q_norm.weight", Part::rows}}},
    {"layers.*.attention.k_norm.weight", {{"model.layers.*.self_attn.k_norm.weight", Part::rows}}},
};
inline constexpr ForeignRow kSplitMlpRows[] = {
    {"layers.*.mlp.gate_up.weight",
     {{"model.layers.*.mlp.gate_proj.weight", Part::gate},
      {"model.layers.*.mlp.up_proj.weight", Part::up}}},
    {"layers.*.mlp.gate_up.bias",
     {{"model.layers.*.mlp.gate_proj.bias", Part::gate},
      {"model.layers.*.mlp.up_proj.bias", Part::up}}},
    {"layers.*.mlp.down.weight", {{"model.layers.*.mlp.down_proj.weight", Part::rows}}},
    {"layers.*.mlp.down.bias", {{"model.layers.*.mlp.down_proj.bias", Part::rows}}},
};
/// Norms before attention and MLP.
inline constexpr ForeignRow kPreNormRows[] = {
    {"layers.*.norm_1.weight", {{"model.layers.*.input_layernorm.weight", Part::rows}}},
    {"layers.*.norm_2.weight", {{"model.layers.*.post_attention_layernorm.weight", Part::rows}}},
};
/// Norms before and after both (Gemma 2 and 3).
inline constexpr ForeignRow kBothNormRows[] = {
    {"layers.*.norm_1.weight", {{"model.layers.*.input_layernorm.weight", Part::rows}}},
    {"layers.*.norm_1_out.weight",
     {{"model.layers.*.post_attention_layernorm.weight", Part::rows}}},
    {"layers.*.norm_2.weight", {{"model.layers.*.pre_feedforward_layernorm.weight", Part::rows}}},
    {"layers.*.norm_2_out.weight",
     {{"model.layers.*.post_feedforward_layernorm.weight", Part::rows}}},
};

/// Angles that older files hold beside the weights.
inline constexpr std::string_view kRotaryBuffers[] = {
    "model.layers.*.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"};

template <size_t... kCounts>
constexpr auto joined(const ForeignRow (&... parts)[kCounts]) {
  std::array<ForeignRow, (kCounts + ...)> all{};
  auto next = all.begin();
  ((next = std::copy(std::begin(parts), std::end(parts), next)), ...);
  return all;
}

}  // namespace megalith::models

// SPDX-License-Identifier: Apache-2.0
// Rows of tables of tensors that several architectures have.
#pragma once

#include "families/shared_rows.h"
#include "gguf_models/architecture.h"

namespace megalith::gguf_models {

using models::ForeignRow;
using models::joined;
using models::Part;

inline constexpr ForeignRow kModelRows[] = {
    {"embedding.weight", {{"token_embd.weight", Part::rows}}},
    {"final_norm.weight", {{"output_norm.weight", Part::rows}}},
    {"head.weight", {{"output.weight", Part::rows}}},
};
inline constexpr ForeignRow kSplitAttentionRows[] = {
    {"layers.*.attention.qkv.weight",
     {{"blk.*.attn_q.weight", Part::query},
      {"blk.*.attn_k.weight", Part::key},
      {"blk.*.attn_v.weight", Part::value}}},
    {"layers.*.attention.qkv.bias",
     {{"blk.*.attn_q.bias", Part::query},
      {"blk.*.attn_k.bias", Part::key},
      {"blk.*.attn_v.bias", Part::value}}},
};
inline constexpr ForeignRow kFusedAttentionRows[] = {
    {"layers.*.attention.qkv.weight",
     {{"blk.*.attn_qkv.weight", Part::query},
      {"blk.*.attn_qkv.weight", Part::key},
      {"blk.*.attn_qkv.weight", Part::value}}},
    {"layers.*.attention.qkv.bias",
     {{"blk.*.attn_qkv.bias", Part::query},
      {"blk.*.attn_qkv.bias", Part::key},
      {"blk.*.attn_qkv.bias", Part::value}}},
};
inline constexpr ForeignRow kOutputRows[] = {
    {"layers.*.attention.output.weight", {{"blk.*.attn_output.weight", Part::rows}}},
    {"layers.*.attention.output.bias", {{"blk.*.attn_output.bias", Part::rows}}},
    {"layers.*.mlp.down.weight", {{"blk.*.ffn_down.weight", Part::rows}}},
    {"layers.*.mlp.down.bias", {{"blk.*.ffn_down.bias", Part::rows}}},
};
inline constexpr ForeignRow kHeadNormRows[] = {
    {"layers.*.attention.q_norm.weight", {{"blk.*.attn_q_norm.weight", Part::rows}}},
    {"layers.*.attention.k_norm.weight", {{"blk.*.attn_k_norm.weight", Part::rows}}},
};
inline constexpr ForeignRow kGatedRows[] = {
    {"layers.*.mlp.gate_up.weight",
     {{"blk.*.ffn_gate.weight", Part::gate}, {"blk.*.ffn_up.weight", Part::up}}},
    {"layers.*.mlp.gate_up.bias",
     {{"blk.*.ffn_gate.bias", Part::gate}, {"blk.*.ffn_up.bias", Part::up}}},
};
inline constexpr ForeignRow kPlainRows[] = {
    {"layers.*.mlp.up.weight", {{"blk.*.ffn_up.weight", Part::rows}}},
    {"layers.*.mlp.up.bias", {{"blk.*.ffn_up.bias", Part::rows}}},
};
inline constexpr ForeignRow kPreNormRows[] = {
    {"layers.*.norm_1.weight", {{"blk.*.attn_norm.weight", Part::rows}}},
    {"layers.*.norm_2.weight", {{"blk.*.ffn_norm.weight", Part::rows}}},
};
inline constexpr ForeignRow kNormBiasRows[] = {
    {"layers.*.norm_1.bias", {{"blk.*.attn_norm.bias", Part::rows}}},
    {"layers.*.norm_2.bias", {{"blk.*.ffn_norm.bias", Part::rows}}},
    {"final_norm.bias", {{"output_norm.bias", Part::rows}}},
};
inline constexpr ForeignRow kPositionRows[] = {
    {"position.weight", {{"position_embd.weight", Part::rows}}},
};
inline constexpr ForeignRow kOutNormRows[] = {
    {"layers.*.norm_1_out.weight", {{"blk.*.post_attention_norm.weight", Part::rows}}},
    {"layers.*.norm_2_out.weight", {{"blk.*.post_ffw_norm.weight", Part::rows}}},
};

}  // namespace megalith::gguf_models

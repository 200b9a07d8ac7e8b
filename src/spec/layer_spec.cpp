// SPDX-License-Identifier: Apache-2.0
#include "spec/layer_spec.h"

namespace megalith::layers {
namespace {

using settings::above;
using settings::between;

constexpr double kMostElements = 1 << 24;

}  // namespace

void NormSpec::visit(settings::FieldVisitor& v) {
  v.field("kind", kind, "layer (Ba et al. 2016) or rms (Zhang & Sennrich 2019)");
  v.field("eps", eps, "added to the variance", between(0, 1));
  v.field("offset", offset, "added to the weight", between(-16, 16));
  v.field("bias", bias, "of layer norms");
}

void RopeSpec::visit(settings::FieldVisitor& v) {
  v.field("dim", dim, "leading elements of a head that turn; 0: none", between(0, 512));
  v.field("base", base, "the slowest pair turns by 1 / base", between(1, 1e12));
  v.field("interleaved", interleaved, "pairs of neighbours instead of halves");
  v.field("scaling", scaling, "how positions reach beyond original_context");
  v.field("factor", factor, "by how much they reach", above(0));
  v.field("original_context", original_context, "trained length; 0: the context",
          between(0, 1 << 28));
  v.field("low_frequency_factor", low_frequency_factor, "llama3", above(0));
  v.field("high_frequency_factor", high_frequency_factor, "llama3", above(0));
  v.field("beta_fast", beta_fast, "yarn", above(0));
  v.field("beta_slow", beta_slow, "yarn", above(0));
  v.field("truncate", truncate, "yarn: whole ends of the ramp");
  v.field("attention_factor", attention_factor, "of cosines and sines; 0: the formula's",
          between(0, 1e6));
  v.field("short_factors", short_factors, "longrope, up to original_context");
  v.field("long_factors", long_factors, "longrope, beyond it");
}

void RelativeSpec::visit(settings::FieldVisitor& v) {
  v.field("buckets", buckets, "of distances, on both sides together", between(2, kMostBuckets));
  v.field("max_distance", max_distance, "from which on there is one", between(2, kLargestDistance));
}

void AttentionSpec::visit(settings::FieldVisitor& v) {
  v.field("heads", heads, "query heads", between(1, 1 << 16));
  v.field("kv_heads", kv_heads, "key and value heads; divides heads", between(1, 1 << 16));
  v.field("head_dim", head_dim, "elements of a head", between(1, 1 << 16));
  v.field("qkv_bias", qkv_bias, "of the projections to queries, keys and values");
  v.field("output_bias", output_bias, "of the projection back");
  v.field("qk_norm", qk_norm, "norm of queries and keys");
  v.section("rope", rope, "Rotary positions.");
  v.optional_section("relative", relative, "Biases of scores by distance.");
  v.field("window", window, "keys a query sees to a side, itself one; 0: all", between(0, 1 << 28));
  v.field("softcap", softcap, "bound of scores; 0: none", between(0, 1e6));
  v.field("scale", scale, "of scores; 0: 1 / sqrt(head_dim)", between(0, 1e6));
  v.field("causal", causal, "queries see no later keys");
  v.field("materialised", materialised, "probabilities are stored");
}

void MlpSpec::visit(settings::FieldVisitor& v) {
  v.field("ffn", ffn, "inner width", between(1, kMostElements));
  v.field("gated", gated, "act(gate) up");
  v.field("activation", activation, "of the inner layer");
  v.field("bias", bias, "of both products");
}

void LayerSpec::visit(settings::FieldVisitor& v) {
  v.section("norm", norm, "Of both sublayers.");
  v.field("norm_place", norm_place, "where the norms stand");
  v.field("attention_norm", attention_norm, "there is one before attention");
  v.field("parallel", parallel, "attention and MLP read the same stream");
  v.field("residual_scale", residual_scale, "of what they add to it", between(-1e6, 1e6));
  v.section("attention", attention, "Mixes tokens.");
  v.optional_section("cross", cross, "Mixes in the rows of another sequence.");
  v.section("mlp", mlp, "Acts on each token.");
}

void EmbeddingSpec::visit(settings::FieldVisitor& v) {
  v.field("position", position,
          "learned table of positions, sines and cosines times a learned scale, or none");
  v.field("position_offset", position_offset, "rows before that of position 0", between(0, 1024));
  v.field("token_types", token_types, "rows of a table of segments; 0: none", between(0, 1024));
  v.field("scale", scale, "of token rows", between(-1e6, 1e6));
  v.optional_section("norm", norm, "Of the sum of all rows.");
  v.field("width", width, "of the tables; 0: hidden", between(0, 1 << 20));
}

void TransformSpec::visit(settings::FieldVisitor& v) {
  v.field("bias", bias, "of the product");
  v.field("activation", activation, "behind it");
  v.section("norm", norm, "Behind that.");
}

void HeadSpec::visit(settings::FieldVisitor& v) {
  v.field("kind", kind, "what the losses are");
  v.field("norm", norm, "rows go through the final norm first");
  v.field("tied", tied, "the projection is the token embedding");
  v.field("bias", bias, "of logits");
  v.optional_section("transform", transform, "Before the outputs.");
  v.field("softcap", softcap, "bound of logits; 0: none", between(0, 1e6));
  v.field("scale", scale, "of logits", between(-1e6, 1e6));
  v.field("pooling", pooling, "which row stands for a sequence");
  v.field("dense", dense, "between that row and the outputs");
  v.field("outputs", outputs, "classes, or numbers", between(0, kMostElements));
  v.field("labels", labels, "names of the outputs");
}

}  // namespace megalith::layers

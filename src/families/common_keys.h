// SPDX-License-Identifier: Apache-2.0
// Keys of config.json that most families spell alike, both ways.
#pragma once

#include "base/function_ref.h"
#include "families/config_keys.h"
#include "families/families.h"

namespace megalith::models {

/// hidden_size, num_attention_heads and their like. `usual`: what the class has where a key is
/// absent; without kv_heads and head_dim they follow from the others.
Sizes read_sizes(const ConfigKeys& keys, const Sizes& usual);
void write_sizes(const ModelSpec& model, nlohmann::ordered_json& json);

/// transformers' names, of several for one activation the first.
layers::Activation activation_named(const ConfigKeys& keys, const char* name, const char* usual);
/// Of a value of that key.
layers::Activation activation_of(const ConfigKeys& keys, const char* key, const std::string& text);
std::string_view name_of_activation(layers::Activation activation);
/// Of the MLPs.
void read_activation(const ConfigKeys& keys, const char* name, const char* usual, ModelSpec& model);
void write_activation(const ModelSpec& model, const char* name, nlohmann::ordered_json& json);

/// Added to the variance, in every norm.
void read_norm_eps(const ConfigKeys& keys, const char* name, double usual, ModelSpec& model);

/// One rate serves all places here; only training reads it. A warning when `names` have several:
/// the first stands for all.
double read_dropout(const ConfigKeys& keys, std::initializer_list<const char*> names,
                    double usual = 0);

/// Spread of initial weights and whether the head is the embedding.
void read_ends(const ConfigKeys& keys, bool usually_tied, ModelSpec& model);

/// Rotary positions, the same in every layer.
void set_rope(const layers::RopeSpec& rope, ModelSpec& model);
/// attention_bias: of all four projections.
void read_attention_bias(const ConfigKeys& keys, ModelSpec& model);

/// A bound that tanh makes; `usual` where the key is absent, none where it is null.
double read_softcap(const ConfigKeys& keys, const char* name, double usual);
nlohmann::ordered_json softcap_json(double softcap);

/// sliding_window: `usual` where it is absent, 0 (none) where it is null.
int64_t read_window(const ConfigKeys& keys, int64_t usual);
nlohmann::ordered_json window_json(int64_t window);

/// layer_types, or where it is absent `slides` of a layer's number: layers that slide see `window`
/// keys, the others all.
void read_layer_types(const ConfigKeys& keys, int64_t window, FunctionRef<bool(int64_t)> slides,
                      ModelSpec& model);
/// layer_types of layers with and without a window.
nlohmann::ordered_json layer_types_json(const ModelSpec& model);
/// sliding_window and layer_types.
void write_layer_types(const ModelSpec& model, nlohmann::ordered_json& json);
/// Of the first layer that has a window; 0: none has.
int64_t window_of(const ModelSpec& model);

/// Qwen's windows: with use_sliding_window, of the layers from max_window_layers on.
void read_late_windows(const ConfigKeys& keys, ModelSpec& model);
void write_late_windows(const ModelSpec& model, nlohmann::ordered_json& json);

/// query_pre_attn_scalar: scores are divided by its square root.
void read_score_scale(const ConfigKeys& keys, int64_t usual, ModelSpec& model);
void write_score_scale(const ModelSpec& model, nlohmann::ordered_json& json);

/// UserError unless hidden is a multiple of heads: what some classes want, although head_dim stands
/// beside it.
void require_even_heads(const ModelSpec& model);

}  // namespace megalith::models

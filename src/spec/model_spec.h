// SPDX-License-Identifier: Apache-2.0
// A model as data: an embedding, one description per layer, a head. A family (GPT-2, Llama) is a
// set of defaults for these values and a table of foreign names; nothing below this room knows one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "spec/layer_spec.h"

namespace megalith::models {

/// Vocabularies are padded to a multiple of this and of the tensor shards, so that no layout moves
/// a bit; padded rows are zero, take no part in the softmax and stay zero.
inline constexpr int64_t kVocabularyMultiple = 128;

struct ModelSpec {
  std::string family = "gpt2";  // whose names and configuration an export writes
  int64_t hidden = 768;
  int64_t context = 1024;  // longest sequence
  int64_t vocab = 50257;
  double dropout = 0;
  double init_std = 0.02;
  layers::EmbeddingSpec embedding;
  std::vector<layers::LayerSpec> layers = std::vector<layers::LayerSpec>(12);
  /// The first of the layers that make an encoder: they read a text of their own, and the cross
  /// attention of the others, the decoder, reads what they make of it (Vaswani et al. 2017). The
  /// tables of tokens and the kind of the final norm are one for both. 0: there is one stack.
  int64_t encoder_layers = 0;
  int64_t decoder_start = 0;  // of an encoder-decoder: the token before a decoder's first
  /// Runs of layers that share their weights (Lan et al. 2020): group(i) has those of layer i. 0:
  /// every layer has its own.
  int64_t layer_groups = 0;
  layers::NormSpec final_norm;
  layers::HeadSpec head;

  int64_t num_layers() const { return static_cast<int64_t>(layers.size()); }
  const layers::LayerSpec& layer(int64_t index) const { return layers[static_cast<size_t>(index)]; }
  int64_t num_groups() const { return layer_groups == 0 ? num_layers() : layer_groups; }
  /// Whose weights a layer has, by which its parameters are named.
  int64_t group(int64_t layer) const { return layer * num_groups() / num_layers(); }
  /// The first layer of a group; of the number of groups, the number of layers.
  int64_t group_begin(int64_t group) const {
    return (group * num_layers() + num_groups() - 1) / num_groups();
  }
  /// Some layers have weights, or a table, together.
  bool shares_weights() const;
  /// The layers of the stack that a layer is in: [stack_begin, stack_end).
  int64_t stack_begin(int64_t layer) const { return is_encoder_layer(layer) ? 0 : encoder_layers; }
  int64_t stack_end(int64_t layer) const {
    return is_encoder_layer(layer) ? encoder_layers : num_layers();
  }
  /// What the names of its parameters begin with: "layers.3", in an encoder "encoder.layers.3".
  /// Each stack counts from 0.
  std::string layer_name(int64_t layer) const;
  /// All layers alike.
  bool is_uniform() const;
  bool is_encoder_decoder() const { return encoder_layers > 0; }
  bool is_encoder_layer(int64_t layer) const { return layer < encoder_layers; }
  /// Every token of the stack with the head sees those before it and itself alone: what predicting
  /// the next one needs.
  bool is_causal() const;
  /// Of the tables of tokens, positions and token types.
  int64_t table_width() const { return embedding.width != 0 ? embedding.width : hidden; }
  /// Changes every layer alike.
  void for_each_layer(FunctionRef<void(layers::LayerSpec&)> change);
  /// Drops layers from the end, or repeats the last one.
  void set_num_layers(int64_t count);
  /// Rows of its tables under a canonical split.
  int64_t padded_vocab(int tensor_shards) const;
  /// Parameters of the whole model, padding not counted, tied ones once.
  int64_t num_parameters() const;
  /// Throws UserError with everything that is impossible, absurd or has no code yet; before
  /// anything is allocated. `where` names the source ("recipe.yaml", "config.json").
  void check(const std::string& where) const;
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

/// What keeps `shards` from being the canonical split of tensor dimensions, or `ranks` from sharing
/// them, in words with a value to set; empty: nothing.
std::string split_fault(const ModelSpec& model, int shards, int ranks = 1);

/// Default canonical split of tensor dimensions: gcd(8, heads, kv_heads) of all layers.
int default_tensor_shards(const ModelSpec& model);

}  // namespace megalith::models

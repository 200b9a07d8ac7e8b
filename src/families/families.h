// SPDX-License-Identifier: Apache-2.0
// Families of models: what their members have in common as defaults of a ModelSpec, what
// transformers calls their settings, and a table of their tensors. A family is one file here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "families/config_keys.h"
#include "families/foreign_table.h"
#include "spec/model_spec.h"

namespace megalith::models {

/// What members of a family differ in; 0: the family's usual value.
struct Sizes {
  int64_t layers = 12;         // of an encoder-decoder those of its encoder
  int64_t decoder_layers = 0;  // and of its decoder; 0: as many
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t kv_heads = 0;  // 0: heads
  int64_t head_dim = 0;  // 0: hidden / heads
  int64_t ffn = 0;       // 0: 4 hidden; gated: 8/3 hidden, up to a multiple of 256
  int64_t context = 1024;
  int64_t vocab = 50257;
};

/// transformers' class for a model with another head than a language model's.
struct HeadClass {
  std::string_view name;
  layers::HeadKind head;
};

struct Family {
  std::string_view name;         // in recipes, and config.json's model_type
  std::string_view class_name;   // transformers' class with the language model's head
  std::string_view model_class;  // and without
  /// A model of these sizes, everything else as the family has it. UserError naming `where` when
  /// the sizes are impossible.
  ModelSpec (*make)(const Sizes& sizes, const std::string& where);
  /// From config.json. UserError naming the key of what has no code here.
  ModelSpec (*read)(const ConfigKeys& keys);
  /// The keys of config.json that say what `model` is, but for model_type and architectures. What
  /// it cannot say is found by reading it back.
  void (*write)(const ModelSpec& model, nlohmann::ordered_json& json);
  int32_t default_end_id;  // eos_token_id where config.json does not name it; -1: none
  ForeignTable tensors;
  std::span<const HeadClass> others = {};  // of sequences and classes
  std::string_view model_type = {};        // in config.json, where it is not the name
  /// Whether the head is tied unless the file has a projection of its own, whatever config.json
  /// says of it; null: config.json decides.
  bool (*ties_unless_stored)(const ConfigKeys& keys) = nullptr;
  bool transform_as_layers = false;  // the head's transform has the activation of the layers
  std::string_view config_type() const { return model_type.empty() ? name : model_type; }
};

/// Radford et al. 2019.
extern const Family kGpt2;
/// Touvron et al. 2023: RMS norms, rotary positions, gated SiLU, no biases.
extern const Family kLlama;
/// Black et al. 2022, Pythia (Biderman et al. 2023): parallel blocks, rotary in a part of a head.
extern const Family kGptNeox;
/// Jiang et al. 2023: Llama with a window.
extern const Family kMistral;
/// Yang et al. 2024 (Qwen 2, 2.5): Llama with biases of queries, keys and values.
extern const Family kQwen2;
/// Yang et al. 2025: Llama with norms of queries and keys.
extern const Family kQwen3;
/// Gemma Team 2024: norm weights about 0, scaled embeddings, gated GELU.
extern const Family kGemma;
/// Gemma Team 2024: and norms on both sides, windows in every other layer, caps.
extern const Family kGemma2;
/// Gemma Team 2025, the text model: five layers with a window and angles of their own to one.
extern const Family kGemma3Text;
/// Abdin et al. 2024: Llama with fused projections and longrope.
extern const Family kPhi3;
/// OLMo Team 2025: norms of outputs, and of all queries and keys together.
extern const Family kOlmo2;
/// Lozhkov et al. 2024: layer norms, biases, plain MLPs.
extern const Family kStarcoder2;
/// Devlin et al. 2019: an encoder, norms behind the sums, token types.
extern const Family kBert;
/// Liu et al. 2019: BERT with positions from 2 on and heads of its own.
extern const Family kRoberta;
/// Lan et al. 2020: BERT with one layer's weights for all, and narrow tables.
extern const Family kAlbert;
/// Warner et al. 2024: norms before, rotary positions, windows, gated MLPs.
extern const Family kModernbert;
/// Geiping & Goldstein 2023: norms before, sines and cosines, gated MLPs, no biases.
extern const Family kCrammed;
/// Raffel et al. 2020: an encoder and a decoder with biases by distance. 1.0, 1.1 and Flan.
extern const Family kT5;
/// Xue et al. 2021: T5 1.1 of many languages.
extern const Family kMt5;

std::span<const Family* const> families();
/// Those whose tokens see each other both ways.
bool is_encoder(const Family& family);
/// Null when there is none such.
const Family* find_family(std::string_view name);
/// UserError naming `where` and listing the families when there is none such.
const Family& family_named(std::string_view name, const std::string& where);

/// A stack of equal layers of these sizes; every other value as `layer` has it. For families.
ModelSpec uniform_stack(const Sizes& sizes, layers::LayerSpec layer, const std::string& where);
/// One with rotary positions of all of each head, learned ones of none, and a head of its own.
ModelSpec rotary_stack(std::string_view family, const Sizes& sizes, const layers::LayerSpec& layer,
                       const std::string& where);
/// The same with Gemma's embedding: times the square root of its width, and the head.
ModelSpec scaled_tied_stack(std::string_view family, const Sizes& sizes,
                            const layers::LayerSpec& layer, const std::string& where);
/// Llama's: root-mean-square norms, their weights beside `norm_offset`, a gated MLP, no biases.
layers::LayerSpec gated_layer(layers::Activation activation, double norm_offset = 0);
inline ModelSpec gpt2(const Sizes& sizes) { return kGpt2.make(sizes, "model"); }
inline ModelSpec llama(const Sizes& sizes) { return kLlama.make(sizes, "model"); }

}  // namespace megalith::models

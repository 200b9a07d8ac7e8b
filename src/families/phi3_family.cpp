// SPDX-License-Identifier: Apache-2.0
// Phi-3, and the text models of Phi-3.5 and 4 (Abdin et al. 2024): fused projections, queries
// before keys before values, gates before ups. Sources: Phi3Config and modeling_phi3.py of
// transformers 4 and 5.
#include "base/error.h"
#include "families/common_keys.h"
#include "families/rope_config.h"
#include "families/shared_rows.h"

namespace megalith::models {
namespace phi3_family {

constexpr ForeignRow kFusedRows[] = {
    {"layers.*.attention.qkv.weight",
     {{"model.layers.*.self_attn.qkv_proj.weight", Part::query},
      {"model.layers.*.self_attn.qkv_proj.weight", Part::key},
      {"model.layers.*.self_attn.qkv_proj.weight", Part::value}}},
    {"layers.*.attention.output.weight", {{"model.layers.*.self_attn.o_proj.weight", Part::rows}}},
    {"layers.*.mlp.gate_up.weight",
     {{"model.layers.*.mlp.gate_up_proj.weight", Part::gate},
      {"model.layers.*.mlp.gate_up_proj.weight", Part::up}}},
    {"layers.*.mlp.down.weight", {{"model.layers.*.mlp.down_proj.weight", Part::rows}}},
};
constexpr auto kRows = joined(kModelRows, kFusedRows, kPreNormRows);

constexpr RopeKeys kRope{
    .fraction = "partial_rotary_factor", .usual_original = 4096, .brief_longrope = true};

ModelSpec make(const Sizes& sizes, const std::string& where) {
  return rotary_stack("phi3", sizes, gated_layer(layers::Activation::silu), where);
}

ModelSpec read(const ConfigKeys& keys) {
  for (const char* bias : {"attention_bias", "mlp_bias", "lm_head_bias"}) keys.only(bias, false);
  for (const char* factor : {"full_attn_mod", "interpolate_factor"}) keys.only(factor, 1.0);
  ModelSpec model = make(read_sizes(keys, {.layers = 32,
                                           .hidden = 3072,
                                           .heads = 32,
                                           .ffn = 8192,
                                           .context = 4096,
                                           .vocab = 32064}),
                         keys.where());
  read_activation(keys, "hidden_act", "silu", model);
  read_norm_eps(keys, "rms_norm_eps", 1e-5, model);
  const int64_t window = read_window(keys, 0);
  const layers::RopeSpec rope =
      read_rope(keys, {model.layers[0].attention.head_dim, model.context}, kRope);
  if (rope.scaling != layers::RopeScaling::none && rope.scaling != layers::RopeScaling::longrope) {
    throw UserError("{}: rope_type {} is not supported by the class, which has longrope alone",
                    keys.where(), settings::name_of(rope.scaling));
  }
  set_rope(rope, model);
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.attention.window = window; });
  model.dropout = read_dropout(keys, {"resid_pdrop", "embd_pdrop", "attention_dropout"});
  read_ends(keys, false, model);
  return model;
}

void write(const ModelSpec& model, nlohmann::ordered_json& json) {
  const layers::LayerSpec& layer = model.layers.front();
  const layers::AttentionSpec& a = layer.attention;
  if (a.rope.scaling != layers::RopeScaling::none && a.head_dim * a.heads != model.hidden) {
    throw UserError(
        "the phi3 format cannot express this model: longrope with head_dim {}, not hidden {} over "
        "heads {}",
        a.head_dim, model.hidden, a.heads);
  }
  write_sizes(model, json);
  write_activation(model, "hidden_act", json);
  json["rms_norm_eps"] = layer.norm.eps;
  for (const char* key : {"resid_pdrop", "embd_pdrop"}) json[key] = model.dropout;
  json["sliding_window"] = window_json(a.window);
  write_rope(a.rope, {a.head_dim, model.context}, json, kRope);
}

}  // namespace phi3_family

const Family kPhi3{"phi3",
                   "Phi3ForCausalLM",
                   "Phi3Model",
                   phi3_family::make,
                   phi3_family::read,
                   phi3_family::write,
                   32000,
                   {phi3_family::kRows, kRotaryBuffers, "model."}};

}  // namespace megalith::models

// SPDX-License-Identifier: Apache-2.0
#include "gguf_models/model_description.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "families/model_spec_json.h"
#include "gguf_models/rope_metadata.h"

namespace megalith::gguf_models {
namespace {

using layers::LayerSpec;

/// Keys that say nothing of the arithmetic here.
constexpr std::string_view kHarmless =
    " tensor_data_layout rope.scaling.finetuned pooling_type expert_used_count "
    "mm.tokens_per_image ";

constexpr std::string_view kEndIds[] = {
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
constexpr std::string_view kBeginId = "tokenizer.ggml.bos_token_id";

const char* eps_key(const ModelSpec& model) {
  return model.final_norm.kind == layers::NormKind::rms ? "attention.layer_norm_rms_epsilon"
                                                        : "attention.layer_norm_epsilon";
}

models::Sizes read_sizes(const MetadataKeys& keys, int64_t vocab_rows) {
  models::Sizes sizes;
  sizes.layers = keys.size("block_count");
  sizes.hidden = keys.size("embedding_length");
  sizes.heads = keys.size("attention.head_count");
  sizes.kv_heads = keys.size("attention.head_count_kv", sizes.heads);
  const int64_t even = sizes.hidden / sizes.heads;
  sizes.head_dim = keys.size("attention.key_length", std::max<int64_t>(even, 1));
  if (keys.size("attention.value_length", sizes.head_dim) != sizes.head_dim) {
    throw UserError("{}: {} differs from {}, which is not supported", keys.where(),
                    keys.full("attention.value_length"), keys.full("attention.key_length"));
  }
  sizes.ffn = keys.size("feed_forward_length");
  sizes.context = keys.size("context_length");
  sizes.vocab = keys.size("vocab_size", vocab_rows);
  return sizes;
}

/// Which projections have biases shows in the tensors of the first layer.
void read_biases(const ModelDescription& description, ModelSpec& model) {
  const auto has = [&](const char* name) { return description.tensors.contains(name); };
  model.for_each_layer([&](LayerSpec& layer) {
    layer.attention.qkv_bias = has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias");
    layer.attention.output_bias = has("blk.0.attn_output.bias");
    layer.mlp.bias = has("blk.0.ffn_down.bias");
  });
}

/// One model in one file.
void check_general(const gguf::Metadata& metadata, const std::string& where) {
  const MetadataKeys general(metadata, where, "general"), split(metadata, where, "split");
  if (const std::string type = general.text("type", "model"); type != "model")
    throw UserError("{}: general.type is {}, not a model", where, type);
  if (split.count("count", 1) > 1) {
    throw UserError(
        "{}: is one of {} parts of a split file, which is not supported; join them "
        "with llama-gguf-split --merge",
        where, split.count("count", 1));
  }
}

/// As a file keeps it: numbers in 32 bits, nothing of how it is trained, and mistral is llama.
ModelSpec as_kept(ModelSpec model) {
  const auto round = [](double& number) { number = shortest(static_cast<float>(number)); };
  const auto round_all = [&](std::vector<double>& numbers) {
    std::ranges::for_each(numbers, round);
  };
  model.dropout = 0;
  model.init_std = 0.02;
  if (model.family == "mistral") model.family = "llama";
  round(model.final_norm.eps);
  round(model.head.softcap);
  model.for_each_layer([&](LayerSpec& layer) {
    layers::AttentionSpec& a = layer.attention;
    a.materialised = false;
    for (double* number : {&layer.norm.eps, &a.softcap, &a.scale, &a.rope.base, &a.rope.factor,
                           &a.rope.attention_factor, &a.rope.beta_fast, &a.rope.beta_slow})
      round(*number);
    round_all(a.rope.short_factors);
    round_all(a.rope.long_factors);
  });
  return model;
}

/// Names of values that differ; of layers those of the first that does.
std::vector<std::string> differences(ModelSpec a, ModelSpec b) {
  if (a.layers.size() == b.layers.size()) {
    const auto found = std::ranges::mismatch(a.layers, b.layers);
    const bool differ = found.in1 != a.layers.end();
    const LayerSpec one = differ ? *found.in1 : a.layers.front();
    const LayerSpec other = differ ? *found.in2 : b.layers.front();
    a.layers.assign(1, one);
    b.layers.assign(1, other);
  }
  const nlohmann::json left = nlohmann::json(models::to_json(a)).flatten();
  const nlohmann::json right = nlohmann::json(models::to_json(b)).flatten();
  std::vector<std::string> names;
  for (const auto& [key, value] : left.items()) {
    const auto other = right.find(key);
    if (other == right.end() || *other != value) names.push_back(key);
  }
  for (const auto& [key, value] : right.items()) {
    if (!left.contains(key)) names.push_back(key);
  }
  if (names.size() > 4) names.resize(4);  // a line of them is enough
  return names;
}

/// Of what the file would say, as far as it says something of the model.
ModelDescription description_of(const ModelSpec& model, const Architecture& architecture,
                                const WrittenDescription& written) {
  ModelDescription description;
  for (const auto& [key, value] : written.keys) description.metadata.emplace(key, value);
  description.metadata.emplace("general.architecture", gguf::Value::text(architecture.name));
  description.factors = written.factors;
  description.vocab_rows = model.vocab;
  const LayerSpec& layer = model.layers.front();
  const auto add = [&](bool there, const char* name) {
    if (there) description.tensors.insert(name);
  };
  add(!model.head.tied, "output.weight");
  add(layer.attention.qkv_bias, "blk.0.attn_q.bias");
  add(layer.attention.output_bias, "blk.0.attn_output.bias");
  add(layer.mlp.bias, "blk.0.ffn_down.bias");
  return description;
}

void write_sizes(const ModelSpec& model, KeyWriter& keys) {
  const LayerSpec& layer = model.layers.front();
  const layers::AttentionSpec& a = layer.attention;
  keys.add_count("vocab_size", model.vocab);
  keys.add_count("context_length", model.context);
  keys.add_count("embedding_length", model.hidden);
  keys.add_count("block_count", model.num_layers());
  keys.add_count("feed_forward_length", layer.mlp.ffn);
  keys.add_count("attention.head_count", a.heads);
  keys.add_count("attention.head_count_kv", a.kv_heads);
  keys.add_count("attention.key_length", a.head_dim);
  keys.add_count("attention.value_length", a.head_dim);
  keys.add_number(eps_key(model), layer.norm.eps);
}

}  // namespace

ModelSpec read_model(const ModelDescription& description, const std::string& where) {
  const gguf::Metadata& metadata = description.metadata;
  check_general(metadata, where);
  const MetadataKeys general(metadata, where, "general");
  const Architecture& architecture = architecture_named(general.text("architecture", ""), where);
  const MetadataKeys keys(metadata, where, architecture.name);
  const models::Family& family = models::family_named(architecture.family, where);
  ModelSpec model = family.make(read_sizes(keys, description.vocab_rows), where);
  const double eps = keys.number(eps_key(model), 1e-5);
  const layers::RopeSpec usual = model.layers.front().attention.rope;
  const bool turns = usual.dim > 0;
  const layers::RopeSpec rope =
      turns ? read_rope(keys, description, model.context, usual) : layers::RopeSpec{};
  if (architecture.paired_heads && rope.dim != model.layers.front().attention.head_dim) {
    throw UserError("{}: {} is {}, not the {} of a head", where, keys.full("rope.dimension_count"),
                    rope.dim, model.layers.front().attention.head_dim);
  }
  model.for_each_layer([&](LayerSpec& layer) {
    layer.norm.eps = eps;
    layer.attention.rope = rope;
  });
  model.final_norm.eps = eps;
  read_biases(description, model);
  model.head.tied = !description.tensors.contains("output.weight");
  if (architecture.read != nullptr) architecture.read(keys, model);
  if (!keys.boolean("attention.causal", true))
    throw UserError("{}: attention that is not causal is not supported", where);
  keys.no_others(kHarmless);
  model.check(where);
  return model;
}

WrittenDescription describe(const ModelSpec& model) {
  const Architecture& architecture = architecture_of(model);
  WrittenDescription written;
  KeyWriter keys(architecture.name);
  write_sizes(model, keys);
  // Gemma 3's layers without a window turn by the angles that all others do.
  const LayerSpec* layer = &model.layers.front();
  for (const LayerSpec& each : model.layers) {
    if (each.attention.window == 0) layer = &each;
  }
  if (layer->attention.rope.dim > 0)
    write_rope(layer->attention.rope, model.context, keys, written);
  if (architecture.write != nullptr) architecture.write(model, keys);
  written.keys = keys.keys();
  const ModelSpec wanted = as_kept(model);
  const ModelSpec again =
      as_kept(read_model(description_of(model, architecture, written), "the GGUF format"));
  if (again != wanted) {
    throw UserError("the GGUF format cannot express this model: {}",
                    fmt::join(differences(wanted, again), ", "));
  }
  return written;
}

SpecialIds special_ids(const gguf::Metadata& metadata, int64_t vocab) {
  SpecialIds ids;
  const auto id_at = [&](std::string_view key) -> std::optional<int32_t> {
    const auto found = metadata.find(key);
    const auto id = found == metadata.end() ? std::nullopt : found->second.integer();
    if (!id || *id < 0 || *id >= vocab) return std::nullopt;
    return static_cast<int32_t>(*id);
  };
  for (const std::string_view key : kEndIds) {
    const auto id = id_at(key);
    if (id && std::ranges::find(ids.end, *id) == ids.end.end()) ids.end.push_back(*id);
  }
  ids.begin = id_at(kBeginId);
  return ids;
}

gguf::OrderedMetadata special_keys(const SpecialIds& ids) {
  gguf::OrderedMetadata keys;
  if (ids.begin) keys.emplace_back(kBeginId, gguf::Value::u32(static_cast<uint32_t>(*ids.begin)));
  // The format has room for three; further ones of a list are not written.
  for (size_t i = 0; i < std::min(ids.end.size(), std::size(kEndIds)); ++i)
    keys.emplace_back(kEndIds[i], gguf::Value::u32(static_cast<uint32_t>(ids.end[i])));
  return keys;
}

}  // namespace megalith::gguf_models

// SPDX-License-Identifier: Apache-2.0
#include "families/quantization_config.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json_number.h"
#include "families/config_keys.h"

namespace megalith::models {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

/// What says nothing of the arithmetic of weights.
constexpr std::string_view kHarmless =
    " activation_scheme bits dequantize exclude_modules ignore ignored_layers "
    "global_compression_ratio "
    "is_checkpoint_fp8_serialized modules_to_not_convert observer observer_kwargs "
    "packed_modules_mapping quantization_status scale_fmt targets version actorder ";

[[noreturn]] void refuse(const ConfigKeys& keys, const std::string& key, const Json& value,
                         std::string_view supported) {
  throw UserError("{}: {} {} is not supported; of FP8 {} is", keys.where(), key,
                  ConfigKeys::shown(value), supported);
}

/// [rows, columns]
Fp8Config block_of(const ConfigKeys& keys, const char* name, const std::string& path) {
  const Json* json = keys.find(name);
  if (json == nullptr) return {};
  Fp8Config config;
  const bool is_pair = json->is_array() && json->size() == 2;
  for (size_t i = 0; i < 2; ++i) {
    const auto size = is_pair ? whole_number_in((*json)[i]) : std::nullopt;
    if (!size || *size < 1)
      refuse(keys, path + name, *json, "blocks of [rows, columns], as in [128, 128]");
    (i == 0 ? config.block_rows : config.block_columns) = *size;
  }
  return config;
}

/// The method `fp8`.
Fp8Config parse_fp8(const Json& json, const std::string& where) {
  const std::string prefix = "quantization_config.";
  const ConfigKeys keys(json, where, prefix);
  keys.text("quant_method", "");
  if (const std::string fmt = keys.text("fmt", "e4m3"); fmt != "e4m3")
    refuse(keys, prefix + "fmt", fmt, "e4m3");
  const Fp8Config config = block_of(keys, "weight_block_size", prefix);
  keys.no_others(kHarmless);
  return config;
}

/// `weights` of a group of modules.
Fp8Config parse_group_weights(const Json& json, const std::string& where,
                              const std::string& prefix) {
  const ConfigKeys keys(json, where, prefix);
  if (const int64_t bits = keys.integer({"num_bits"}, 8); bits != 8)
    refuse(keys, prefix + "num_bits", bits, "8");
  if (const std::string type = keys.text("type", "int"); type != "float")
    refuse(keys, prefix + "type", type, "float");
  keys.only("symmetric", true);
  keys.only("dynamic", false);
  const std::string strategy = keys.text("strategy", "tensor");
  if (strategy != "tensor" && strategy != "channel" && strategy != "block")
    refuse(keys, prefix + "strategy", strategy, "tensor, channel or block");
  keys.integer({"group_size"}, 0);
  const Fp8Config config = block_of(keys, "block_structure", prefix);
  // What they were made by, and the types that others store beside.
  for (const char* name : {"scale_dtype", "zp_dtype"}) keys.find(name);
  keys.no_others(kHarmless);
  return config;
}

/// The method `compressed-tensors`.
Fp8Config parse_compressed_tensors(const Json& json, const std::string& where) {
  const std::string prefix = "quantization_config.";
  const ConfigKeys keys(json, where, prefix);
  keys.text("quant_method", "");
  if (const std::string format = keys.text("format", "float-quantized");
      format != "float-quantized" && format != "naive-quantized")
    refuse(keys, prefix + "format", format, "float-quantized");
  if (const Json* cache = keys.find("kv_cache_scheme"))
    throw UserError(
        "{}: {}kv_cache_scheme {} is not supported; set it to null, and choose the cache's type by "
        "--kv-dtype",
        where, prefix, ConfigKeys::shown(*cache));
  const Json* groups = keys.find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty())
    throw UserError("{}: {}config_groups must be an object of groups", where, prefix);
  keys.no_others(kHarmless);
  Fp8Config config;
  for (const auto& [name, group] : groups->items()) {
    const std::string path = prefix + "config_groups." + name + ".";
    if (!group.is_object()) throw UserError("{}: {} must be an object", where, path);
    const ConfigKeys group_keys(group, where, path);
    // Inputs are multiplied as they are, which rounds less.
    group_keys.find("input_activations");
    group_keys.text("format", "");
    group_keys.absent("output_activations", "rounded outputs are");
    const Json* weights = group_keys.find("weights");
    if (weights == nullptr || !weights->is_object())
      throw UserError("{}: {}weights must be an object", where, path);
    group_keys.no_others(kHarmless);
    const Fp8Config of_group = parse_group_weights(*weights, where, path + "weights.");
    if (of_group.block_rows == 0) continue;
    if (config.block_rows != 0 && config != of_group)
      throw UserError("{}: {}config_groups have blocks of {} x {} and of {} x {}; one size is read",
                      where, prefix, config.block_rows, config.block_columns, of_group.block_rows,
                      of_group.block_columns);
    config = of_group;
  }
  return config;
}

}  // namespace

Fp8Config parse_quantization_config(const Json& json, const std::string& where) {
  if (!json.is_object()) throw UserError("{}: quantization_config must be an object", where);
  const std::string method =
      ConfigKeys(json, where, "quantization_config.").text("quant_method", "");
  if (method == "fp8") return parse_fp8(json, where);
  if (method == "compressed-tensors") return parse_compressed_tensors(json, where);
  throw UserError(
      "{}: quantization_config.quant_method {} is not supported; quantised weights are read of fp8 "
      "and compressed-tensors, and of GGUF files",
      where, ConfigKeys::shown(Json(method)));
}

OrderedJson quantization_config(const std::vector<std::string>& ignored) {
  const OrderedJson weights{{"num_bits", 8},
                            {"type", "float"},
                            {"symmetric", true},
                            {"strategy", "channel"},
                            {"dynamic", false},
                            {"group_size", nullptr},
                            {"block_structure", nullptr},
                            {"actorder", nullptr},
                            {"observer", "minmax"},
                            {"observer_kwargs", OrderedJson::object()}};
  OrderedJson group{{"targets", {"Linear"}}};
  group["weights"] = weights;
  group["input_activations"] = nullptr;
  group["output_activations"] = nullptr;
  OrderedJson json;
  json["quant_method"] = "compressed-tensors";
  json["format"] = "float-quantized";
  json["quantization_status"] = "compressed";
  json["config_groups"] = {{"group_0", group}};
  json["ignore"] = ignored;
  json["kv_cache_scheme"] = nullptr;
  return json;
}

}  // namespace megalith::models

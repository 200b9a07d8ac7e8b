// SPDX-License-Identifier: Apache-2.0
#include "models/rope_config.h"

#include "base/error.h"

namespace megalith::models {
namespace {

using layers::RopeScaling;
using layers::RopeSpec;

RopeScaling scaling_named(const std::string& name, const ConfigKeys& keys) {
  if (name == "default") return RopeScaling::none;
  for (const RopeScaling scaling : {RopeScaling::linear, RopeScaling::dynamic, RopeScaling::yarn,
                                    RopeScaling::llama3, RopeScaling::longrope}) {
    if (name == config::name_of(scaling)) return scaling;
  }
  if (name == "su") return RopeScaling::longrope;  // its first name
  throw UserError("{}: rope_type {} is not supported", keys.where(), ConfigKeys::shown(name));
}

/// The others reach from the model's own context.
bool has_original(RopeScaling scaling) {
  return scaling == RopeScaling::yarn || scaling == RopeScaling::llama3 ||
         scaling == RopeScaling::longrope;
}

/// Settings of other scalings than the object's own, which nobody reads then.
constexpr std::string_view kScalingKeys[] = {"type",
                                             "rope_type",
                                             "rope_theta",
                                             "partial_rotary_factor",
                                             "factor",
                                             "original_max_position_embeddings",
                                             "attention_factor",
                                             "low_freq_factor",
                                             "high_freq_factor",
                                             "beta_fast",
                                             "beta_slow",
                                             "truncate",
                                             "mscale",
                                             "mscale_all_dim",
                                             "short_factor",
                                             "long_factor"};

/// The object's settings of its scaling, with the defaults of modeling_rope_utils.py.
void read_scaling(const ConfigKeys& keys, int64_t context, RopeSpec& rope) {
  const std::string older = keys.text("type", "default");
  rope.scaling = scaling_named(keys.text("rope_type", older.c_str()), keys);
  rope.base = keys.number("rope_theta", rope.base);
  keys.only("partial_rotary_factor", 1.0);
  keys.no_others(kScalingKeys);
  if (rope.scaling == RopeScaling::none) return;
  rope.original_context = keys.integer({"original_max_position_embeddings"}, rope.original_context);
  // Without a factor, yarn and longrope reach from the original context to the model's.
  const bool reaches = rope.original_context > 0 &&
                       (rope.scaling == RopeScaling::yarn || rope.scaling == RopeScaling::longrope);
  rope.factor = keys.number(
      "factor",
      reaches ? static_cast<double>(context) / static_cast<double>(rope.original_context) : 1);
  rope.attention_factor = keys.number("attention_factor", 0);
  if (rope.scaling == RopeScaling::llama3) {
    rope.low_frequency_factor = keys.number("low_freq_factor", 1);
    rope.high_frequency_factor = keys.number("high_freq_factor", 4);
  }
  if (rope.scaling == RopeScaling::yarn) {
    keys.absent("mscale", "it is");
    keys.absent("mscale_all_dim", "it is");
    rope.beta_fast = keys.number("beta_fast", 32);
    rope.beta_slow = keys.number("beta_slow", 1);
    rope.truncate = keys.boolean("truncate", true);
  }
  if (rope.scaling == RopeScaling::longrope) {
    rope.short_factors = keys.numbers("short_factor");
    rope.long_factors = keys.numbers("long_factor");
  }
}

}  // namespace

RopeSpec read_rope(const ConfigKeys& keys, int64_t dim, int64_t context) {
  RopeSpec rope;
  rope.dim = dim;
  rope.base = keys.number("rope_theta", 10000);
  const int64_t original = keys.integer({"original_max_position_embeddings"}, 0);
  rope.original_context = original == context ? 0 : original;
  const nlohmann::json *const older = keys.find("rope_scaling"), *const newer =
                                                                     keys.find("rope_parameters");
  for (const auto& [name, object] :
       {std::pair{"rope_scaling", older}, std::pair{"rope_parameters", newer}}) {
    if (object == nullptr || object->empty()) continue;
    if (!object->is_object()) throw UserError("{}: {} must be an object", keys.where(), name);
    read_scaling(ConfigKeys(*object, keys.where(), std::string(name) + "."), context, rope);
    break;  // transformers takes the first of the two
  }
  if (rope.original_context == context) rope.original_context = 0;
  if (!has_original(rope.scaling)) rope.original_context = 0;
  return rope;
}

void write_rope(const RopeSpec& rope, int64_t context, nlohmann::ordered_json& json) {
  nlohmann::ordered_json object;
  const bool scaled = rope.scaling != RopeScaling::none;
  object["rope_type"] = scaled ? std::string(config::name_of(rope.scaling)) : "default";
  if (scaled) {
    object["factor"] = rope.factor;
    if (has_original(rope.scaling)) {
      object["original_max_position_embeddings"] =
          rope.original_context > 0 ? rope.original_context : context;
    }
    if (rope.attention_factor > 0) object["attention_factor"] = rope.attention_factor;
  }
  if (rope.scaling == RopeScaling::llama3) {
    object["low_freq_factor"] = rope.low_frequency_factor;
    object["high_freq_factor"] = rope.high_frequency_factor;
  }
  if (rope.scaling == RopeScaling::yarn) {
    object["beta_fast"] = rope.beta_fast;
    object["beta_slow"] = rope.beta_slow;
    object["truncate"] = rope.truncate;
  }
  if (rope.scaling == RopeScaling::longrope) {
    object["short_factor"] = rope.short_factors;
    object["long_factor"] = rope.long_factors;
  }
  // Phi-3's place for it, where readers of its scaling look first.
  if (rope.scaling == RopeScaling::longrope)
    json["original_max_position_embeddings"] = object["original_max_position_embeddings"];
  json["rope_theta"] = rope.base;
  json["rope_scaling"] = scaled ? object : nlohmann::ordered_json();
  object["rope_theta"] = rope.base;
  json["rope_parameters"] = object;
}

}  // namespace megalith::models

// SPDX-License-Identifier: Apache-2.0
#include "families/rope_config.h"

#include <cmath>

#include "base/error.h"

namespace megalith::models {
namespace {

using layers::RopeScaling;
using layers::RopeSpec;
using nlohmann::ordered_json;

constexpr double kGlobalBase = 1e6, kLocalBase = 1e4;  // of Gemma 3

RopeScaling scaling_named(const std::string& name, const ConfigKeys& keys) {
  if (name == "default") return RopeScaling::none;
  for (const RopeScaling scaling : {RopeScaling::linear, RopeScaling::dynamic, RopeScaling::yarn,
                                    RopeScaling::llama3, RopeScaling::longrope}) {
    if (name == settings::name_of(scaling)) return scaling;
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
constexpr std::string_view kScalingKeys =
    " type rope_type rope_theta partial_rotary_factor factor original_max_position_embeddings "
    "attention_factor low_freq_factor high_freq_factor beta_fast beta_slow truncate mscale "
    "mscale_all_dim short_factor long_factor ";

/// Elements of a head that turn, rounded down as transformers does.
int64_t turning(double fraction, int64_t head_dim, const ConfigKeys& keys) {
  if (!(fraction > 0 && fraction <= 1)) {
    throw UserError("{}: partial_rotary_factor {} is not a part of a head", keys.where(), fraction);
  }
  const auto dim = static_cast<int64_t>(static_cast<double>(head_dim) * fraction);
  if (dim == 0) {
    throw UserError("{}: partial_rotary_factor {} leaves nothing of heads of {}", keys.where(),
                    fraction, head_dim);
  }
  return dim;
}

/// The number that makes `dim` of a head, the other way round.
double fraction_of(int64_t dim, int64_t head_dim) {
  const double whole = static_cast<double>(head_dim);
  double fraction = static_cast<double>(dim) / whole;
  if (static_cast<int64_t>(whole * fraction) < dim) fraction = std::nextafter(fraction, 2.0);
  return fraction;
}

/// The settings that one scaling alone has.
void read_own(const ConfigKeys& keys, RopeSpec& rope) {
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

/// An object's settings, with the defaults of modeling_rope_utils.py. rope: in, what stands outside
/// of it.
void read_scaling(const ConfigKeys& keys, const RopeReach& reach, const RopeKeys& names,
                  RopeSpec& rope) {
  const std::string older = keys.text("type", "default");
  rope.scaling = scaling_named(keys.text("rope_type", older.c_str()), keys);
  rope.base = keys.number("rope_theta", rope.base);
  if (names.fraction == nullptr) {
    keys.only("partial_rotary_factor", 1.0);
  } else if (keys.find("partial_rotary_factor") != nullptr) {
    rope.dim = turning(keys.number("partial_rotary_factor", 1), reach.head_dim, keys);
  }
  keys.no_others(kScalingKeys);
  if (rope.scaling == RopeScaling::none) return;
  const int64_t original = keys.integer({"original_max_position_embeddings"}, 0);
  if (original != 0 && rope.original_context != 0 && original != rope.original_context) {
    // Releases of transformers differ in which of the two they take.
    throw UserError("{}: original_max_position_embeddings is {} and, with the scaling, {}",
                    keys.where(), rope.original_context, original);
  }
  if (original != 0) rope.original_context = original;
  // Without a factor, yarn and longrope reach from the original context to the model's.
  const bool reaches = rope.original_context > 0 &&
                       (rope.scaling == RopeScaling::yarn || rope.scaling == RopeScaling::longrope);
  rope.factor = keys.number("factor", reaches ? static_cast<double>(reach.context) /
                                                    static_cast<double>(rope.original_context)
                                              : 1);
  rope.attention_factor = keys.number("attention_factor", 0);
  read_own(keys, rope);
}

/// One spelling of models whose original context is their context, or plays no part.
void settle(const RopeReach& reach, RopeSpec& rope) {
  if (rope.original_context == reach.context || !has_original(rope.scaling))
    rope.original_context = 0;
}

ordered_json scaling_object(const RopeSpec& rope, int64_t context) {
  ordered_json object;
  const bool scaled = rope.scaling != RopeScaling::none;
  object["rope_type"] = scaled ? std::string(settings::name_of(rope.scaling)) : "default";
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
  return object;
}

/// What transformers 4 reads.
ordered_json older_object(const RopeSpec& rope, const RopeReach& reach, const RopeKeys& names) {
  if (rope.scaling == RopeScaling::none) return {};
  if (!names.brief_longrope) return scaling_object(rope, reach.context);
  const int64_t original = rope.original_context > 0 ? rope.original_context : reach.context;
  const double own = static_cast<double>(reach.context) / static_cast<double>(original);
  // It goes before rope_parameters: better none than one that says less.
  if (rope.factor != own || rope.attention_factor != 0) return {};
  return {{"type", "longrope"},
          {"short_factor", rope.short_factors},
          {"long_factor", rope.long_factors}};
}

RopeSpec read_half(const ConfigKeys& keys, const char* type, const char* base_key, double base,
                   const RopeReach& reach) {
  const nlohmann::json* const objects = keys.find("rope_parameters");
  nlohmann::json merged = nlohmann::json::object();
  if (objects != nullptr && objects->contains(type) && !objects->at(type).is_null())
    merged = objects->at(type);
  const nlohmann::json* const older = keys.find("rope_scaling");
  if (std::string_view(type) == "full_attention" && older != nullptr) {
    if (!older->is_object() || !merged.is_object())
      throw UserError("{}: rope_scaling must be an object", keys.where());
    merged.update(*older);
  }
  if (!merged.is_object())
    throw UserError("{}: rope_parameters.{} must be an object", keys.where(), type);
  RopeSpec rope;
  rope.dim = reach.head_dim;
  rope.base = keys.number(base_key, base);
  read_scaling(ConfigKeys(merged, keys.where(), fmt::format("rope_parameters.{}.", type)), reach,
               {}, rope);
  settle(reach, rope);
  return rope;
}

}  // namespace

RopeSpec read_rope(const ConfigKeys& keys, const RopeReach& reach, const RopeKeys& names) {
  RopeSpec rope;
  rope.base = keys.number(names.base, names.usual_base);
  if (names.fraction == nullptr) {
    keys.only("partial_rotary_factor", 1.0);
    rope.dim = reach.head_dim;
  } else {
    rope.dim = turning(keys.number(names.fraction, names.usual_fraction), reach.head_dim, keys);
  }
  rope.original_context = keys.integer({"original_max_position_embeddings"}, names.usual_original);
  const nlohmann::json* const older = keys.find("rope_scaling");
  const nlohmann::json* const newer = keys.find("rope_parameters");
  for (const auto& [name, object] :
       {std::pair{"rope_scaling", older}, std::pair{"rope_parameters", newer}}) {
    if (object == nullptr || object->empty()) continue;
    if (!object->is_object()) throw UserError("{}: {} must be an object", keys.where(), name);
    read_scaling(ConfigKeys(*object, keys.where(), std::string(name) + "."), reach, names, rope);
    break;  // transformers takes the first of the two
  }
  settle(reach, rope);
  return rope;
}

void write_rope(const RopeSpec& rope, const RopeReach& reach, ordered_json& json,
                const RopeKeys& names) {
  ordered_json object = scaling_object(rope, reach.context);
  // Phi-3's place for it, where readers of its scaling look first.
  if (rope.scaling == RopeScaling::longrope)
    json["original_max_position_embeddings"] = object["original_max_position_embeddings"];
  json[names.base] = rope.base;
  json["rope_scaling"] = older_object(rope, reach, names);
  object["rope_theta"] = rope.base;
  if (names.fraction != nullptr) {
    json[names.fraction] = fraction_of(rope.dim, reach.head_dim);
    object["partial_rotary_factor"] = json[names.fraction];
  }
  json["rope_parameters"] = object;
}

RopePair read_rope_pair(const ConfigKeys& keys, const RopeReach& reach, const RopePairKeys& names) {
  const nlohmann::json* const objects = keys.find("rope_parameters");
  if (objects != nullptr) {
    if (!objects->is_object())
      throw UserError("{}: rope_parameters must be an object", keys.where());
    ConfigKeys(*objects, keys.where(), "rope_parameters.")
        .no_others(" full_attention sliding_attention ");
  }
  keys.only("partial_rotary_factor", 1.0);
  return {read_half(keys, "full_attention", names.full, names.usual_full, reach),
          read_half(keys, "sliding_attention", names.local, names.usual_local, reach)};
}

void write_rope_pair(const RopePair& ropes, const RopeReach& reach, ordered_json& json,
                     const RopePairKeys& names) {
  json[names.full] = ropes.full.base;
  json[names.local] = ropes.local.base;
  json["rope_scaling"] = older_object(ropes.full, reach, {});
  for (const auto& [type, rope] :
       {std::pair{"full_attention", &ropes.full}, std::pair{"sliding_attention", &ropes.local}}) {
    ordered_json object = scaling_object(*rope, reach.context);
    object["rope_theta"] = rope->base;
    json["rope_parameters"][type] = object;
  }
}

}  // namespace megalith::models

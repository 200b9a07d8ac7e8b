// SPDX-License-Identifier: Apache-2.0
#include "models/architecture_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"

namespace megalith::models {
namespace {

constexpr std::array<const char*, 2> kNorms{"layer_norm", "rms_norm"};
constexpr std::array<const char*, 2> kPositions{"learned", "rotary"};
constexpr std::array<const char*, 3> kMlps{"gelu_tanh", "gelu_erf", "swiglu"};
constexpr std::array<const char*, 2> kAttentions{"streaming", "materialised"};

template <typename Enum, size_t N>
Enum choice(const nlohmann::json& json, const char* key, const std::array<const char*, N>& names,
            const std::string& where) {
  const std::string name = json.at(key).get<std::string>();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw UserError("{}: {} '{}' is not known", where, key, name);
  return static_cast<Enum>(found - names.begin());
}

int64_t integer(const nlohmann::json& json, const char* key, const std::string& where) {
  const auto number = whole_number_in(json.at(key));
  if (!number) throw UserError("{}: {} is not a whole number", where, key);
  return *number;
}

}  // namespace

nlohmann::json to_json(const Architecture& a) {
  const auto name = [](const auto& names, auto value) { return names[static_cast<size_t>(value)]; };
  return {{"layers", a.layers},
          {"hidden", a.hidden},
          {"heads", a.heads},
          {"kv_heads", a.kv_heads},
          {"ffn", a.ffn},
          {"context", a.context},
          {"vocab", a.vocab},
          {"norm", name(kNorms, a.norm)},
          {"position", name(kPositions, a.position)},
          {"mlp", name(kMlps, a.mlp)},
          {"attention", name(kAttentions, a.attention)},
          {"bias", a.bias},
          {"tied", a.tied},
          {"dropout", a.dropout},
          {"norm_eps", a.norm_eps},
          {"init_std", a.init_std}};
}

Architecture architecture_from(const nlohmann::json& json, const std::string& where) {
  Architecture a;
  try {
    a.layers = integer(json, "layers", where);
    a.hidden = integer(json, "hidden", where);
    a.heads = integer(json, "heads", where);
    a.kv_heads = integer(json, "kv_heads", where);
    a.ffn = integer(json, "ffn", where);
    a.context = integer(json, "context", where);
    a.vocab = integer(json, "vocab", where);
    a.norm = choice<NormKind>(json, "norm", kNorms, where);
    a.position = choice<PositionKind>(json, "position", kPositions, where);
    a.mlp = choice<MlpKind>(json, "mlp", kMlps, where);
    a.attention = choice<AttentionKind>(json, "attention", kAttentions, where);
    a.bias = json.at("bias").get<bool>();
    a.tied = json.at("tied").get<bool>();
    a.dropout = json.at("dropout").get<double>();
    a.norm_eps = json.at("norm_eps").get<double>();
    a.init_std = json.at("init_std").get<double>();
  } catch (const nlohmann::json::exception& error) {
    throw UserError("{}: the architecture cannot be read: {}", where, error.what());
  }
  a.check(where);
  return a;
}

}  // namespace megalith::models

// SPDX-License-Identifier: Apache-2.0
#include "models/hugging_face.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_fault.h"
#include "base/json_number.h"
#include "base/log.h"
#include "models/gpt2_names.h"

namespace megalith::models {
namespace {

using Json = nlohmann::json;

/// GPT-2's end of text, the class default of eos_token_id.
constexpr int32_t kDefaultEndId = 50256;

Json parse_object(std::string_view text, const std::string& where) {
  if (const auto fault = json_fault(text)) throw UserError("{}: {}", where, *fault);
  Json json = Json::parse(text);
  if (!json.is_object()) throw UserError("{}: must be a JSON object", where);
  return json;
}

/// Typed look-ups with the class's defaults; null counts as absent.
class Keys {
 public:
  Keys(const Json& json, const std::string& where) : json_(json), where_(where) {}

  const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  /// `names` are spellings of one setting; two that disagree are refused.
  int64_t integer(std::initializer_list<const char*> names, int64_t otherwise) const {
    const char* first = nullptr;
    int64_t value = otherwise;
    for (const char* name : names) {
      const Json* json = find(name);
      if (json == nullptr) continue;
      const auto number = whole_number_in(*json);
      if (!number)
        throw UserError("{}: {} is {}, must be a whole number", where_, name, shown(*json));
      if (first != nullptr && *number != value) {
        throw UserError("{}: {} is {}, but {} is {}; they are one setting", where_, first, value,
                        name, *number);
      }
      first = name;
      value = *number;
    }
    return value;
  }
  double number(const char* name, double otherwise) const {
    const Json* json = find(name);
    if (json == nullptr) return otherwise;
    if (!json->is_number()) {
      throw UserError("{}: {} is {}, must be a number", where_, name, shown(*json));
    }
    return json->get<double>();
  }
  bool boolean(const char* name, bool otherwise) const {
    const Json* json = find(name);
    if (json == nullptr) return otherwise;
    if (!json->is_boolean()) {
      throw UserError("{}: {} is {}, must be true or false", where_, name, shown(*json));
    }
    return json->get<bool>();
  }
  std::string text(const char* name, const char* otherwise) const {
    const Json* json = find(name);
    if (json == nullptr) return otherwise;
    if (!json->is_string()) {
      throw UserError("{}: {} is {}, must be a text", where_, name, shown(*json));
    }
    return json->get<std::string>();
  }
  /// A value in an error message: short, whatever the file holds.
  static std::string shown(const Json& json) {
    if (json.is_structured()) return json.is_array() ? "a list" : "an object";
    std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 60) + "...";
    return text;
  }

 private:
  const Json& json_;
  const std::string& where_;
};

void check_is_gpt2(const Json& json, const Keys& keys, const std::string& where) {
  const std::string type = keys.text("model_type", "");
  if (type == "gpt2") return;
  const auto classes = json.find("architectures");
  const bool named = classes != json.end() && classes->is_array() && !classes->empty() &&
                     classes->front().is_string();
  const std::string name = named ? classes->front().get<std::string>() : "";
  if (type.empty() && (name == "GPT2LMHeadModel" || name == "GPT2Model")) return;
  if (type.empty()) {
    throw UserError("{}: model_type is missing; 'gpt2' is what this program reads", where);
  }
  throw UserError("{}: model_type {} is not supported; 'gpt2' is what this program reads", where,
                  Keys::shown(type));
}

/// Settings that change the arithmetic and have no code.
void check_supported(const Keys& keys, const std::string& where) {
  const auto refuse_unless = [&](const char* key, bool needed) {
    if (keys.boolean(key, needed) != needed) {
      throw UserError("{}: {} {} is not supported", where, key, !needed);
    }
  };
  refuse_unless("scale_attn_weights", true);
  refuse_unless("scale_attn_by_inverse_layer_idx", false);
  refuse_unless("add_cross_attention", false);
  refuse_unless("is_encoder_decoder", false);
  // reorder_and_upcast_attn is a matter of where float16 is widened; the function is the same.
  keys.boolean("reorder_and_upcast_attn", false);
  if (keys.find("quantization_config") != nullptr) {
    throw UserError("{}: quantization_config: quantized weights are not supported", where);
  }
}

MlpKind activation(const Keys& keys, const std::string& where) {
  const std::string name = keys.text("activation_function", "gelu_new");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return MlpKind::gelu_tanh;
  }
  if (name == "gelu") return MlpKind::gelu_erf;
  throw UserError(
      "{}: activation_function {} is not supported (gelu_new, gelu_pytorch_tanh, "
      "gelu_fast or gelu)",
      where, Keys::shown(name));
}

/// One rate serves all three places here. Only training reads it.
double dropout(const Keys& keys, const std::string& where) {
  const double residual = keys.number("resid_pdrop", 0.1);
  const double embedding = keys.number("embd_pdrop", 0.1);
  const double attention = keys.number("attn_pdrop", 0.1);
  if (residual != embedding || residual != attention) {
    log::warning(
        "{}: resid_pdrop, embd_pdrop and attn_pdrop differ; resid_pdrop {} stands for all "
        "(reading and writing text is not affected)",
        where, residual);
  }
  return residual;
}

std::optional<std::vector<int32_t>> end_ids(const Keys& keys, int64_t vocab,
                                            const std::string& where) {
  const Json* json = keys.find("eos_token_id");
  if (json == nullptr) return std::nullopt;
  const Json list = json->is_array() ? *json : Json::array({*json});
  std::vector<int32_t> ids;
  for (const Json& entry : list) {
    const auto id = whole_number_in(entry);
    if (!id) {
      throw UserError("{}: eos_token_id holds {}, must be a whole number or a list of them", where,
                      Keys::shown(entry));
    }
    // Small models are often saved with the class default, an id they do not have.
    if (*id < 0 || *id >= vocab) continue;
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace

HuggingFaceConfig parse_hugging_face_config(std::string_view text, const std::string& where) {
  const Json json = parse_object(text, where);
  const Keys keys(json, where);
  check_is_gpt2(json, keys, where);
  check_supported(keys, where);
  HuggingFaceConfig config;
  Architecture& a = config.architecture;
  a.vocab = keys.integer({"vocab_size"}, 50257);
  a.context = keys.integer({"n_positions", "max_position_embeddings"}, 1024);
  a.hidden = keys.integer({"n_embd", "hidden_size"}, 768);
  a.layers = keys.integer({"n_layer", "num_hidden_layers"}, 12);
  a.heads = keys.integer({"n_head", "num_attention_heads"}, 12);
  a.kv_heads = a.heads;
  // Bounded first: four times a hostile size does not fit.
  const bool sane = a.hidden > 0 && a.hidden < (int64_t{1} << 40);
  a.ffn = keys.integer({"n_inner"}, sane ? 4 * a.hidden : 1);
  a.mlp = activation(keys, where);
  a.dropout = dropout(keys, where);
  a.norm_eps = keys.number("layer_norm_epsilon", 1e-5);
  a.init_std = keys.number("initializer_range", 0.02);
  a.tied = keys.boolean("tie_word_embeddings", true);
  a.check(where);
  if (const auto ids = end_ids(keys, a.vocab, where)) {
    config.end_ids = *ids;
  } else if (!json.contains("eos_token_id") && kDefaultEndId < a.vocab) {
    config.end_ids = {kDefaultEndId};
  }
  return config;
}

std::optional<std::vector<int32_t>> parse_end_ids(std::string_view text, int64_t vocab,
                                                  const std::string& where) {
  const Json json = parse_object(text, where);
  return end_ids(Keys(json, where), vocab, where);
}

std::string hugging_face_config(const Architecture& a, DType dtype,
                                const std::vector<int32_t>& ids) {
  check_gpt2_can_express(a);
  const char* const type = dtype == DType::bf16  ? "bfloat16"
                           : dtype == DType::f16 ? "float16"
                           : dtype == DType::f64 ? "float64"
                                                 : "float32";
  nlohmann::ordered_json json;
  json["architectures"] = {"GPT2LMHeadModel"};
  json["model_type"] = "gpt2";
  json["vocab_size"] = a.vocab;
  json["n_positions"] = a.context;
  json["n_embd"] = a.hidden;
  json["n_layer"] = a.layers;
  json["n_head"] = a.heads;
  json["n_inner"] = a.ffn == 4 * a.hidden ? Json() : Json(a.ffn);
  json["activation_function"] = a.mlp == MlpKind::gelu_erf ? "gelu" : "gelu_new";
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) json[key] = a.dropout;
  json["layer_norm_epsilon"] = a.norm_eps;
  json["initializer_range"] = a.init_std;
  json["scale_attn_weights"] = true;
  json["scale_attn_by_inverse_layer_idx"] = false;
  json["reorder_and_upcast_attn"] = false;
  json["tie_word_embeddings"] = a.tied;
  // Absent keys would mean GPT-2's own ids, which another vocabulary does not have.
  const Json end = ids.empty() ? Json() : ids.size() == 1 ? Json(ids[0]) : Json(ids);
  json["bos_token_id"] = ids.empty() ? Json() : Json(ids[0]);
  json["eos_token_id"] = end;
  json["torch_dtype"] = type;
  json["use_cache"] = true;
  return json.dump(2) + "\n";
}

}  // namespace megalith::models

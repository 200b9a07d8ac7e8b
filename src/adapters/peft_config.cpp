// SPDX-License-Identifier: Apache-2.0
#include "adapters/peft_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "adapters/bottleneck_config.h"
#include "base/error.h"
#include "base/json_fault.h"
#include "base/json_number.h"
#include "families/config_keys.h"
#include "grammar_automata/code_automaton.h"

namespace megalith::adapters {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;
using models::ConfigKeys;

constexpr std::string_view kLora = "LORA", kIa3 = "IA3", kPromptTuning = "PROMPT_TUNING",
                           kPTuning = "P_TUNING";

/// Where it is from, how it was trained and begun, how others run it.
constexpr std::string_view kHarmless =
    " arrow_config auto_mapping base_model_name_or_path corda_config ensure_weight_tying "
    "eva_config fan_in_fan_out inference_mode loftq_config lora_dropout lora_ga_config "
    "megatron_core peft_version qalora_group_size revision runtime_config task_type velora_config ";

constexpr std::string_view kHarmlessOfIa3 =
    " auto_mapping base_model_name_or_path fan_in_fan_out inference_mode init_ia3_weights "
    "peft_version revision task_type ";

constexpr std::string_view kHarmlessOfPrompts =
    " auto_mapping base_model_name_or_path encoder_dropout encoder_hidden_size encoder_num_layers "
    "encoder_reparameterization_type inference_mode num_attention_heads num_layers peft_version "
    "prompt_tuning_init prompt_tuning_init_state_dict_path prompt_tuning_init_text revision "
    "task_type token_dim tokenizer_kwargs tokenizer_name_or_path ";

/// Starts that leave the base's weights as they are.
constexpr std::string_view kPlainStarts[] = {"gaussian", "eva", "orthogonal"};

/// Refuses modules_to_save, unless they may be a classifier's head.
void refuse_whole_modules(const ConfigKeys& keys, bool takes_heads) {
  if (takes_heads) {
    keys.find("modules_to_save");
  } else {
    keys.absent("modules_to_save", "modules that were trained whole");
  }
}

void refuse_others(const ConfigKeys& keys, bool takes_heads) {
  const std::string bias = keys.text("bias", "none");
  if (bias != "none") {
    throw UserError("{}: bias {} is not supported: only none, biases that were not trained",
                    keys.where(), ConfigKeys::shown(bias));
  }
  for (const char* const flag : {"lora_bias", "use_qalora"}) keys.only(flag, false);
  refuse_whole_modules(keys, takes_heads);
  keys.absent("target_parameters", "adapters of single parameters");
  keys.absent("trainable_token_indices", "trained rows of the table of tokens");
  keys.absent("layer_replication", "layers that are used several times");
  keys.absent("alora_invocation_tokens", "adapters that begin at a token");
  const Json* const start = keys.find("init_lora_weights");
  if (start == nullptr || start->is_boolean()) return;
  if (!start->is_string() ||
      std::ranges::find(kPlainStarts, start->get<std::string>()) == std::end(kPlainStarts)) {
    throw UserError(
        "{}: init_lora_weights {} changes the base's weights; save the adapter as one of the "
        "unchanged base (path_initial_model_for_weight_conversion)",
        keys.where(), ConfigKeys::shown(*start));
  }
}

std::vector<std::string> strings_of(const Json& json, const std::string& where, const char* key) {
  const auto wrong = [&] { return UserError("{}: {} must be a list of names", where, key); };
  if (!json.is_array()) throw wrong();
  std::vector<std::string> names;
  for (const Json& entry : json) {
    if (!entry.is_string() || entry.get<std::string>().empty()) throw wrong();
    names.push_back(entry.get<std::string>());
  }
  return names;
}

/// Nothing when the key is absent or names none.
std::optional<ModuleNames> modules(const ConfigKeys& keys, const char* key,
                                   grammars::WorkBudget& budget) {
  const Json* const json = keys.find(key);
  if (json == nullptr || json->empty()) return std::nullopt;
  if (!json->is_string()) return ModuleNames::listed(strings_of(*json, keys.where(), key));
  const std::string text = json->get<std::string>();
  if (text.empty()) return std::nullopt;
  if (text == "all-linear") return ModuleNames::all();
  return ModuleNames::matching({text, keys.where() + ": " + key, budget});
}

std::vector<int64_t> layers_of(const ConfigKeys& keys) {
  const Json* const json = keys.find("layers_to_transform");
  if (json == nullptr) return {};
  const Json list = json->is_array() ? *json : Json::array({*json});
  std::vector<int64_t> layers;
  for (const Json& entry : list) {
    const auto number = whole_number_in(entry);
    if (!number || *number < 0)
      throw UserError("{}: layers_to_transform must be numbers of layers", keys.where());
    layers.push_back(*number);
  }
  return layers;
}

std::vector<std::string> layer_patterns(const ConfigKeys& keys) {
  const Json* const json = keys.find("layers_pattern");
  if (json == nullptr || json->empty()) return {};
  const Json list = json->is_array() ? *json : Json::array({*json});
  std::vector<std::string> patterns = strings_of(list, keys.where(), "layers_pattern");
  for (const std::string& pattern : patterns) {
    const auto is_plain = [](char c) { return std::isalnum(static_cast<uint8_t>(c)) || c == '_'; };
    if (!std::ranges::all_of(pattern, is_plain))
      throw UserError("{}: layers_pattern {} is not a plain name", keys.where(),
                      ConfigKeys::shown(pattern));
  }
  return patterns;
}

/// A key of numbers by pattern, in the file's order: the first that fits counts.
template <typename Value, typename Read>
std::vector<std::pair<NamePattern, Value>> by_pattern(const ConfigKeys& keys, const Ordered& whole,
                                                      const char* key, grammars::WorkBudget& budget,
                                                      Read read) {
  std::vector<std::pair<NamePattern, Value>> values;
  if (keys.find(key) == nullptr) return values;
  const Ordered& object = whole.at(key);
  if (!object.is_object()) throw UserError("{}: {} must be an object", keys.where(), key);
  for (const auto& [name, value] : object.items()) {
    values.emplace_back(NamePattern::of_end(name, keys.where() + ": " + key, budget),
                        read(value, fmt::format("{}: {} of {}", keys.where(), key, name)));
  }
  return values;
}

int64_t rank_from(const std::optional<int64_t>& number, const std::string& where) {
  if (!number || *number < 1 || *number > kMostRank)
    throw UserError("{} must be a whole number from 1 to {}", where, kMostRank);
  return *number;
}

double alpha_from(const Ordered& value, const std::string& where) {
  const double alpha = value.is_number() ? value.get<double>() : NAN;
  if (!std::isfinite(alpha)) throw UserError("{} must be a number", where);
  return alpha;
}

ModuleNames targets_of(const ConfigKeys& keys, grammars::WorkBudget& budget) {
  const auto targets = modules(keys, "target_modules", budget);
  if (!targets) throw UserError("{}: target_modules names no modules", keys.where());
  return *targets;
}

Lora lora_of(const ConfigKeys& keys, const Ordered& ordered, const std::string& where,
             bool takes_heads) {
  refuse_others(keys, takes_heads);
  grammars::WorkBudget budget;
  Lora lora;
  lora.rank = rank_from(keys.integer({"r"}, lora.rank), where + ": r");
  lora.alpha = keys.number("lora_alpha", lora.alpha);
  lora.rank_stabilised = keys.boolean("use_rslora", false);
  lora.has_magnitudes = keys.boolean("use_dora", false);
  lora.targets = targets_of(keys, budget);
  lora.excluded = modules(keys, "exclude_modules", budget);
  lora.layers = layers_of(keys);
  lora.layer_patterns = layer_patterns(keys);
  lora.ranks = by_pattern<int64_t>(keys, ordered, "rank_pattern", budget,
                                   [](const Ordered& value, const std::string& what) {
                                     return rank_from(whole_number_in(value), what);
                                   });
  lora.alphas = by_pattern<double>(keys, ordered, "alpha_pattern", budget, alpha_from);
  keys.no_others(kHarmless);
  return lora;
}

Ia3 ia3_of(const ConfigKeys& keys, const std::string& where, bool takes_heads) {
  refuse_whole_modules(keys, takes_heads);
  grammars::WorkBudget budget;
  Ia3 ia3;
  ia3.targets = targets_of(keys, budget);
  ia3.excluded = modules(keys, "exclude_modules", budget);
  const char* const key = "feedforward_modules";
  const Json* const inputs = keys.find(key);
  if (inputs == nullptr) {
    throw UserError("{}: {} is missing: which vectors multiply inputs; of none, give []", where,
                    key);
  }
  if (inputs->is_string()) {
    ia3.feedforward = {inputs->get<std::string>(), fmt::format("{}: {}", where, key), budget};
  } else {
    ia3.feedforward_ends = strings_of(*inputs, where, key);
  }
  keys.no_others(kHarmlessOfIa3);
  return ia3;
}

VirtualPrompt prompt_of(const ConfigKeys& keys, const std::string& where) {
  keys.absent("modules_to_save", "modules that were trained whole");
  // For SEQ_2_SEQ_LM peft saves by default a second set of rows, for the decoder, which its
  // PeftModelForSeq2SeqLM never reads: only the first set goes, before the encoder's input.
  const bool has_encoder = keys.text("task_type", "") == "SEQ_2_SEQ_LM";
  const int64_t parts = keys.integer({"num_transformer_submodules"}, has_encoder ? 2 : 1);
  if (parts != 1 && !(has_encoder && parts == 2))
    throw UserError("{}: num_transformer_submodules must be 1{}", where,
                    has_encoder ? " or 2" : " unless task_type is SEQ_2_SEQ_LM");
  VirtualPrompt prompt{keys.size({"num_virtual_tokens"}, 0)};
  if (prompt.tokens < 1 || prompt.tokens > kMostVirtualTokens)
    throw UserError("{}: num_virtual_tokens must be from 1 to {}", where, kMostVirtualTokens);
  prompt.unread = (parts - 1) * prompt.tokens;
  keys.no_others(kHarmlessOfPrompts);
  return prompt;
}

}  // namespace

PeftConfig parse_peft_config(std::string_view text, const std::string& where, bool takes_heads) {
  if (const auto fault = json_fault(text)) throw UserError("{}: {}", where, *fault);
  const Json json = Json::parse(text);
  if (!json.is_object()) throw UserError("{}: must be a JSON object", where);
  const ConfigKeys keys(json, where);
  if (!json.contains("peft_type") && json.contains("config"))
    return parse_bottleneck_config(json, where);
  const std::string method = keys.text("peft_type", "");
  if (method == kLora) return lora_of(keys, Ordered::parse(text), where, takes_heads);
  if (method == kIa3) return ia3_of(keys, where, takes_heads);
  if (method == kPromptTuning || method == kPTuning) return prompt_of(keys, where);
  throw UserError(
      "{}: peft_type {} is not supported; this program reads {}, {}, {} and {}, and AdapterHub's "
      "bottleneck adapters (key config)",
      where, ConfigKeys::shown(method), kLora, kIa3, kPromptTuning, kPTuning);
}

}  // namespace megalith::adapters

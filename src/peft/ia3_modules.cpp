// SPDX-License-Identifier: Apache-2.0
#include "peft/ia3_modules.h"

#include <algorithm>

#include "adapters/module_names.h"
#include "base/error.h"

namespace megalith::tune {
namespace {

struct FamilyTargets {
  std::string_view family;
  std::vector<std::string> targets;
};

/// TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING of peft 0.21; the last five families, which it
/// does not know, have the modules that hold keys and values, and what ends the MLP.
const FamilyTargets kFamilies[] = {{"gpt2", {"c_attn", "mlp.c_proj"}},
                                   {"gpt_neox", {"query_key_value", "dense_4h_to_h"}},
                                   {"llama", {"k_proj", "v_proj", "down_proj"}},
                                   {"mistral", {"k_proj", "v_proj", "down_proj"}},
                                   {"qwen2", {"q_proj", "v_proj", "down_proj"}},
                                   {"qwen3", {"q_proj", "v_proj", "down_proj"}},
                                   {"gemma", {"q_proj", "v_proj", "down_proj"}},
                                   {"gemma2", {"q_proj", "v_proj", "down_proj"}},
                                   {"gemma3_text", {"q_proj", "v_proj", "down_proj"}},
                                   {"t5", {"k", "v", "wo"}},
                                   {"mt5", {"k", "v", "wi_1"}},
                                   {"bert", {"key", "value", "output.dense"}},
                                   {"roberta", {"key", "value", "output.dense"}},
                                   {"phi3", {"qkv_proj", "down_proj"}},
                                   {"olmo2", {"k_proj", "v_proj", "down_proj"}},
                                   {"starcoder2", {"k_proj", "v_proj", "mlp.c_proj"}},
                                   {"albert", {"key", "value", "ffn_output"}},
                                   {"modernbert", {"Wqkv", "mlp.Wo"}}};

std::vector<std::string> targets_of(const config::TuneSection& tune, const std::string& family) {
  if (!tune.targets.empty()) return tune.targets;
  const auto* const found = std::ranges::find(kFamilies, family, &FamilyTargets::family);
  if (found != std::end(kFamilies)) return found->targets;
  throw UserError(
      "recipe: tune.targets: for model.family {} there is no default with tune.method: ia3; name "
      "the modules",
      family);
}

/// Whether the modules that a target stands for have vectors of their inputs.
bool is_feedforward(const std::string& target, const std::vector<TargetModule>& modules) {
  const auto names = adapters::ModuleNames::listed({target});
  const TargetModule *inputs = nullptr, *outputs = nullptr;
  for (const TargetModule& module : modules)
    if (names.contains(module.name)) (module.is_cut_by_columns ? inputs : outputs) = &module;
  if (inputs != nullptr && outputs != nullptr) {
    throw UserError(
        "recipe: tune.targets: {:?} stands for {}, whose inputs are multiplied, and for {}, whose "
        "outputs are; write more of their names, to tell them apart",
        target, inputs->name, outputs->name);
  }
  return inputs != nullptr;
}

}  // namespace

Ia3Modules ia3_modules(const config::TuneSection& tune, const models::ModelSpec& spec,
                       int tensor_shards) {
  Ia3Modules made;
  made.of = target_modules(targets_of(tune, spec.family), spec, tensor_shards);
  for (const std::string& target : made.of.targets)
    if (is_feedforward(target, made.of.modules)) made.feedforward.push_back(target);
  for (const TargetModule& module : made.of.modules) {
    ia3::MultipliedProduct& product = made.products[module.weight];
    product.of_inputs = module.is_cut_by_columns;
    made.parameters += product.of_inputs ? module.inputs() : module.outputs;
    if (product.of_inputs) continue;
    product.outputs.resize(static_cast<size_t>(module.shape[0]));
    module.for_each_output(
        [&](int64_t, int64_t ours) { product.outputs[static_cast<size_t>(ours)] = true; });
  }
  return made;
}

}  // namespace megalith::tune

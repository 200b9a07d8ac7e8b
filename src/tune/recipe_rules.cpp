// SPDX-License-Identifier: Apache-2.0
#include "tune/recipe_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "tune/task_rules.h"

namespace megalith::tune {
namespace {

using config::TuneMethod;

/// Sections and keys that the model to tune, or tune.data, takes the place of.
constexpr std::string_view kReplaced[] = {
    "model.",         "data.",      "train.objective", "train.sentence_pairs",
    "train.masking.", "train.fim.", "train.spans.",    "train.init"};
constexpr int64_t kLargestSeed = 9'000'000'000'000'000;
constexpr std::string_view kOfTexts[] = {"tune.template"};
constexpr std::string_view kOfLabels[] = {"tune.labels", "tune.task"};
constexpr std::string_view kOfQuestions[] = {"tune.stride"};
constexpr std::string_view kOfLora[] = {"tune.rank", "tune.alpha", "tune.dropout", "tune.rslora",
                                        "tune.dora"};
constexpr std::string_view kOfVirtualTokens[] = {"tune.virtual_tokens",
                                                 "tune.virtual_token_splits"};
constexpr std::string_view kOfPrompts[] = {"tune.prompt_init", "tune.prompt_text"};
constexpr std::string_view kOfFrozen[] = {"tune.quantize"};
constexpr std::string_view kOfEncoders[] = {"tune.encoder"};
constexpr std::string_view kOfBottlenecks[] = {"tune.adapter_dim"};
constexpr std::string_view kOfModules[] = {"tune.targets"};
constexpr std::string_view kOfPreferences[] = {"tune.beta", "tune.label_smoothing"};

bool begins_with_one(std::string_view path, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(
      beginnings, [&](std::string_view beginning) { return path.starts_with(beginning); });
}

/// Questions are answered by places in their texts, which windows hold whatever their length.
void check_questions(const config::Recipe& r, std::vector<std::string>& faults) {
  if (!r.tune.labels.empty())
    faults.emplace_back(
        "tune.labels has no effect with tune.task: question_answering; take it out of the recipe");
  if (r.tune.overlong != config::Overlong::drop)
    faults.emplace_back(
        "tune.overlong has no effect with tune.task: question_answering, which cuts texts into "
        "windows; take it out of the recipe");
}

void check_labels(const config::Recipe& r, std::vector<std::string>& faults) {
  const bool of_tokens = r.tune.task == config::ClassifyTask::token_classification;
  std::vector<std::string> labels = r.tune.labels;
  if (labels.empty())
    faults.emplace_back(
        "tune.labels names no class; set it to their names, in the order of numbers");
  std::ranges::sort(labels);
  if (std::ranges::adjacent_find(labels) != labels.end())
    faults.emplace_back("tune.labels names a class twice");
  if (of_tokens && labels.size() == 1)
    faults.emplace_back("tune.task: token_classification needs two tune.labels at least");
  if (r.tune.overlong == config::Overlong::truncate && !of_tokens)
    faults.emplace_back(
        "tune.overlong: truncate is not built for classify of whole texts; set drop or refuse");
}

void check_classes(const config::Recipe& r, std::vector<std::string>& faults) {
  const bool answers = r.tune.task == config::ClassifyTask::question_answering;
  answers ? check_questions(r, faults) : check_labels(r, faults);
  if (r.train.sample_every > 0)
    faults.emplace_back("train.sample_every: a classifier continues no text; set it to 0");
  if (r.tune.has_virtual_tokens() || r.tune.method == TuneMethod::adapter)
    faults.push_back(fmt::format(
        "tune.objective: classify is not built with tune.method: {}; set full, lora or ia3",
        r.tune.method));
  if (r.tune.method == TuneMethod::dpo)
    faults.emplace_back(
        "tune.method: dpo compares answers, and tune.objective: classify gives none");
}

void check_prompt(const config::Recipe& r, std::vector<std::string>& faults) {
  const bool begins_with_text = r.tune.prompt_init == config::PromptInit::text;
  if (begins_with_text && r.tune.prompt_text.empty())
    faults.emplace_back("tune.prompt_init: text needs tune.prompt_text");
  if (!begins_with_text && !r.tune.prompt_text.empty())
    faults.emplace_back("tune.prompt_text has no effect without tune.prompt_init: text; set that");
}

/// Keys of an encoder that has nothing of the kind.
void check_encoder(const config::Recipe& r, const config::Recipe& standard,
                   std::vector<std::string>& faults) {
  using enum config::PromptEncoderKind;
  const auto unread = [&](const char* key, bool is_set, const char* instead) {
    if (is_set)
      faults.push_back(fmt::format(
          "tune.{} has no effect with tune.encoder: {}; take it out of the recipe, or set {}", key,
          r.tune.encoder, instead));
  };
  unread("encoder_hidden", r.tune.encoder == embedding && r.tune.encoder_hidden > 0, "mlp or lstm");
  unread("encoder_layers",
         r.tune.encoder != lstm && r.tune.encoder_layers != standard.tune.encoder_layers, "lstm");
}

void check_preferences(const config::Recipe& r, std::vector<std::string>& faults) {
  if (r.tune.method == TuneMethod::classify)
    faults.emplace_back(
        "tune.objective: dpo compares answers, and tune.method: classify gives none");
  if (const std::string& text = r.tune.template_text; !text.empty() && !text.ends_with(".jinja"))
    faults.emplace_back(
        "tune.template: lines of tune.objective: dpo have prompt, chosen and rejected, no other "
        "fields; take it out of the recipe, or give a chat template NAME.jinja");
  if (r.train.z_loss > 0)
    faults.emplace_back(
        "train.z_loss has no meaning with tune.objective: dpo, where tokens weigh less than "
        "nothing; set it to 0");
}

void check_what_is_given(const config::Recipe& r, std::vector<std::string>& faults) {
  if (r.tune.objective == config::TuneObjective::classify) check_classes(r, faults);
  if (r.tune.objective == config::TuneObjective::dpo) check_preferences(r, faults);
  check_tasks(r, faults);
  check_splits(r, faults);
  if (r.tune.data.empty() && r.tune.tasks.empty())
    faults.emplace_back("tune.data names no file of examples; set it to a file of JSON lines");
  if (r.train.validate_every > 0 && !r.tune.has_validation())
    faults.emplace_back("train.validate_every needs tune.validation");
  if (r.train.validate_every == 0 && r.tune.has_validation())
    faults.emplace_back("tune.validation has no effect with train.validate_every: 0; set that");
  if (r.tune.seeds > 1 && r.train.validate_every == 0)
    faults.emplace_back(
        "tune.seeds compares validations; set train.validate_every and tune.validation");
  if (r.run.seed > kLargestSeed - (r.tune.seeds - 1))
    faults.push_back(fmt::format("tune.seeds {} reaches beyond the largest run.seed, {}",
                                 r.tune.seeds, kLargestSeed));
  if (r.tune.dropout > 0 && r.parallel.sequence && r.parallel.tensor > 1)
    faults.emplace_back("tune.dropout is not built with parallel.sequence; set one to 0 or false");
  if (r.tune.magnitudes && r.tune.dropout > 0)
    faults.emplace_back("tune.dora is not built with tune.dropout; set one to false or 0");
  if (r.tune.has_virtual_tokens() && r.optimizer.layer_decay != 1)
    faults.push_back(fmt::format(
        "optimizer.layer_decay has no effect with tune.method: {}, which trains below all layers",
        r.tune.method));
  if (r.tune.quantize != config::FrozenWeights::stored &&
      r.precision.compute == config::Compute::fp8)
    faults.push_back(fmt::format(
        "tune.quantize: {} with precision.compute: fp8, whose codes are not made of blocks; set "
        "precision.compute: bf16, or take tune.quantize out",
        r.tune.quantize));
  if (r.tune.method == TuneMethod::prompt && r.tune.tasks.empty()) check_prompt(r, faults);
  if (r.tune.method != TuneMethod::ia3) return;
  for (const config::ParameterGroup& group : r.optimizer.groups)
    if (group.weight_decay.value_or(0) > 0 && !group.match.starts_with("head."))
      faults.push_back(
          fmt::format("optimizer.groups: weight_decay of {:?} draws vectors that begin at one to "
                      "zero; take it out",
                      group.match));
}

}  // namespace

void check_recipe(const config::Recipe& recipe, const config::Recipe& standard,
                  const std::string& where) {
  std::vector<std::string> faults;
  const TuneMethod method = recipe.tune.method;
  if (!recipe.tunes())
    faults.emplace_back("tune.model names no model to tune; set it to a run or a folder");
  const bool classifies = recipe.tune.objective == config::TuneObjective::classify;
  const bool lora = method == TuneMethod::lora, ia3 = method == TuneMethod::ia3,
             bottlenecks = method == TuneMethod::adapter, prompt = method == TuneMethod::prompt,
             encodes = method == TuneMethod::p_tuning;
  const auto unread = [&](const std::string& path, bool is_read, const char* instead) {
    if (is_read) return;
    faults.push_back(
        fmt::format("{} has no effect with tune.method: {}; take it out of the "
                    "recipe, or set tune.method: {}",
                    path, method, instead));
  };
  check_what_is_given(recipe, faults);
  if (encodes) check_encoder(recipe, standard, faults);
  for (const config::Difference& change : config::differences(standard, recipe)) {
    if (change.path == "model.dropout" || change.path.starts_with("tune.tasks.")) continue;
    if (begins_with_one(change.path, kReplaced)) {
      faults.push_back(fmt::format("{} has no effect beside tune.model; take it out of the recipe",
                                   change.path));
    }
    if (begins_with_one(change.path, kOfLora)) unread(change.path, lora, "lora");
    if (begins_with_one(change.path, kOfVirtualTokens))
      unread(change.path, prompt || encodes, "prompt or p_tuning");
    if (begins_with_one(change.path, kOfPrompts)) unread(change.path, prompt, "prompt");
    if (begins_with_one(change.path, kOfEncoders)) unread(change.path, encodes, "p_tuning");
    if (begins_with_one(change.path, kOfBottlenecks)) unread(change.path, bottlenecks, "adapter");
    if (begins_with_one(change.path, kOfModules)) unread(change.path, lora || ia3, "lora or ia3");
    if (begins_with_one(change.path, kOfFrozen))
      unread(change.path, recipe.tune.trains_beside(), "lora");
    if (begins_with_one(change.path, kOfLabels) && !classifies)
      faults.push_back(
          fmt::format("{} has no effect without tune.objective: classify; set that, or take it out "
                      "of the recipe",
                      change.path));
    if (begins_with_one(change.path, kOfQuestions) &&
        (!classifies || recipe.tune.task != config::ClassifyTask::question_answering))
      faults.push_back(fmt::format(
          "{} has no effect without tune.task: question_answering; take it out of the recipe",
          change.path));
    if (begins_with_one(change.path, kOfTexts) && classifies)
      faults.push_back(
          fmt::format("{} has no effect with tune.objective: classify; take it out of the recipe",
                      change.path));
    if (begins_with_one(change.path, kOfPreferences) &&
        recipe.tune.objective != config::TuneObjective::dpo)
      faults.push_back(fmt::format(
          "{} has no effect without tune.objective: dpo; take it out of the recipe, or set that",
          change.path));
  }
  if (!faults.empty()) throw UserError("{}: {}", where, fmt::join(faults, "; "));
}

}  // namespace megalith::tune

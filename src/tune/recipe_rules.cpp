// SPDX-License-Identifier: Apache-2.0
#include "tune/recipe_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "metrics/tags.h"
#include "tune/task_rules.h"

namespace megalith::tune {
namespace {

using config::TuneMethod;
using config::TuneObjective;

constexpr int64_t kLargestSeed = 9'000'000'000'000'000;

/// A key that only some recipes read; one that ends in '.' stands for all keys of a section.
struct KeyRule {
  std::string_view key;
  bool (*is_read)(const config::TuneSection&);
  std::string_view otherwise;  // follows "KEY has no effect "
};

bool never(const config::TuneSection&) { return false; }
bool trains_lora(const config::TuneSection& t) { return t.method == TuneMethod::lora; }
bool picks_modules(const config::TuneSection& t) {
  return trains_lora(t) || t.method == TuneMethod::ia3;
}
bool has_bottlenecks(const config::TuneSection& t) { return t.method == TuneMethod::adapter; }
bool has_table(const config::TuneSection& t) { return t.method == TuneMethod::prompt; }
bool has_encoder(const config::TuneSection& t) { return t.method == TuneMethod::p_tuning; }
bool has_rows(const config::TuneSection& t) { return t.has_virtual_tokens(); }
bool trains_beside(const config::TuneSection& t) { return t.trains_beside(); }
bool classifies(const config::TuneSection& t) { return t.objective == TuneObjective::classify; }
bool takes_template(const config::TuneSection& t) { return !classifies(t); }
bool answers(const config::TuneSection& t) {
  return classifies(t) && t.task == config::ClassifyTask::question_answering;
}
bool compares(const config::TuneSection& t) { return t.objective == TuneObjective::dpo; }

constexpr std::string_view kBesideModel = "beside tune.model; take it out of the recipe";
constexpr std::string_view kWithoutClasses =
    "without tune.objective: classify; set that, or take it out of the recipe";
constexpr std::string_view kWithoutPreferences =
    "without tune.objective: dpo; take it out of the recipe, or set that";

constexpr KeyRule kKeyRules[] = {
    // What tune.model and tune.data replace.
    {"model.", never, kBesideModel},
    {"data.", never, kBesideModel},
    {"train.objective", never, kBesideModel},
    {"train.sentence_pairs", never, kBesideModel},
    {"train.masking.", never, kBesideModel},
    {"train.fim.", never, kBesideModel},
    {"train.spans.", never, kBesideModel},
    {"train.init", never, kBesideModel},
    // What only some objectives read.
    {"tune.template", takes_template, "with tune.objective: classify; take it out of the recipe"},
    {"tune.labels", classifies, kWithoutClasses},
    {"tune.task", classifies, kWithoutClasses},
    {"tune.stride", answers, "without tune.task: question_answering; take it out of the recipe"},
    {"tune.beta", compares, kWithoutPreferences},
    {"tune.label_smoothing", compares, kWithoutPreferences},
};

/// The same for keys that only some methods read: `otherwise` names these.
constexpr KeyRule kMethodRules[] = {
    {"tune.rank", trains_lora, "lora"},
    {"tune.alpha", trains_lora, "lora"},
    {"tune.dropout", trains_lora, "lora"},
    {"tune.rslora", trains_lora, "lora"},
    {"tune.dora", trains_lora, "lora"},
    {"tune.targets", picks_modules, "lora or ia3"},
    {"tune.adapter_dim", has_bottlenecks, "adapter"},
    {"tune.virtual_tokens", has_rows, "prompt or p_tuning"},
    {"tune.virtual_token_splits", has_rows, "prompt or p_tuning"},
    {"tune.prompt_init", has_table, "prompt"},
    {"tune.prompt_text", has_table, "prompt"},
    {"tune.encoder", has_encoder, "p_tuning"},
    {"tune.encoder_hidden", has_encoder, "p_tuning"},
    {"tune.encoder_layers", has_encoder, "p_tuning"},
    {"tune.quantize", trains_beside, "lora, ia3, adapter, prompt or p_tuning"},
};

/// Keys that the recipe sets and nothing reads.
void check_keys(const config::Recipe& r, const config::Recipe& standard,
                std::vector<std::string>& faults) {
  const auto is_broken = [&](const KeyRule& rule, const std::string& path) {
    const bool fits = rule.key.ends_with('.') ? path.starts_with(rule.key) : path == rule.key;
    return fits && !rule.is_read(r.tune);
  };
  for (const config::Difference& change : config::differences(standard, r)) {
    if (change.path == "model.dropout") continue;
    for (const KeyRule& rule : kKeyRules)
      if (is_broken(rule, change.path))
        faults.push_back(fmt::format("{} has no effect {}", change.path, rule.otherwise));
    for (const KeyRule& rule : kMethodRules)
      if (is_broken(rule, change.path))
        faults.push_back(
            fmt::format("{} has no effect with tune.method: {}; take it out of the recipe, or set "
                        "tune.method: {}",
                        change.path, r.tune.method, rule.otherwise));
  }
}

/// An answer is a span of its text, which is cut into windows whatever its length.
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
        "tune.labels names no class; set it to the names of the classes, in the order of their "
        "numbers");
  std::ranges::sort(labels);
  if (std::ranges::adjacent_find(labels) != labels.end())
    faults.emplace_back("tune.labels names a class twice");
  if (of_tokens && labels.size() == 1)
    faults.emplace_back("tune.task: token_classification needs at least two tune.labels");
  if (r.tune.overlong == config::Overlong::truncate && !of_tokens)
    faults.emplace_back(
        "tune.overlong: truncate is not built for classes of whole texts; set drop or refuse");
}

void check_classes(const config::Recipe& r, std::vector<std::string>& faults) {
  answers(r.tune) ? check_questions(r, faults) : check_labels(r, faults);
  if (r.train.sample_every > 0)
    faults.emplace_back("train.sample_every: a classifier writes no text; set it to 0");
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

/// Keys that say something of a part which the encoder does not have.
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
        "train.z_loss has no meaning with tune.objective: dpo, where weights of tokens may be "
        "negative; set it to 0");
}

/// What validations tell, by the names of metrics::Scores, the loss first.
std::vector<std::string_view> given_by_validations(const config::TuneSection& tune) {
  if (!classifies(tune)) return {"loss"};
  switch (tune.task) {
    case config::ClassifyTask::sequence_classification:
      if (tune.labels.size() == 1) return {"loss", "pearson", "spearmanr"};
      return {"loss", "accuracy", "f1", "matthews_correlation"};
    case config::ClassifyTask::token_classification:
      if (!metrics::mark_entities(tune.labels)) return {"loss", "accuracy"};
      return {"loss", "f1", "precision", "recall", "accuracy"};
    case config::ClassifyTask::question_answering:
      return {"loss", "exact_match", "f1"};
  }
  MEGA_CHECK(false, "no scores for task number {}", static_cast<int>(tune.task));
}

void check_best(const config::Recipe& r, std::vector<std::string>& faults) {
  const std::vector<std::string_view> given = given_by_validations(r.tune);
  if (std::ranges::find(given, name_of(r.train.best_by)) != given.end()) return;
  faults.push_back(
      fmt::format("train.best_by: validations of this recipe give no {}; set one of {}",
                  r.train.best_by, fmt::join(given, ", ")));
}

void check_what_is_given(const config::Recipe& r, std::vector<std::string>& faults) {
  check_best(r, faults);
  if (classifies(r.tune)) check_classes(r, faults);
  if (compares(r.tune)) check_preferences(r, faults);
  check_tasks(r, faults);
  check_splits(r, faults);
  if (r.tune.data.empty() && r.tune.tasks.empty())
    faults.emplace_back("tune.data names no file of examples; set it to a file of JSON lines");
  if (r.train.validate_every > 0 && !r.tune.has_validation())
    faults.emplace_back("train.validate_every needs tune.validation");
  if (r.train.validate_every == 0 && r.tune.has_validation())
    faults.emplace_back(
        "tune.validation has no effect with train.validate_every: 0; set a number of steps");
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
        "optimizer.layer_decay has no effect with tune.method: {}, whose rows are below all layers",
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
          fmt::format("optimizer.groups: weight_decay of {:?} pulls vectors that begin at one "
                      "towards zero; take it out",
                      group.match));
}

}  // namespace

void check_recipe(const config::Recipe& recipe, const config::Recipe& standard,
                  const std::string& where) {
  std::vector<std::string> faults;
  if (!recipe.tunes())
    faults.emplace_back("tune.model names no model to tune; set it to a run or a folder");
  check_what_is_given(recipe, faults);
  if (has_encoder(recipe.tune)) check_encoder(recipe, standard, faults);
  check_keys(recipe, standard, faults);
  if (!faults.empty()) throw UserError("{}: {}", where, fmt::join(faults, "; "));
}

}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
// megalith tune: a model that is there, trained on examples.
#include <fmt/format.h>

#include <memory>
#include <string_view>

#include "apps/recipe_options.h"
#include "apps/sample_writer.h"
#include "apps/training/initial_weights.h"
#include "apps/training/seeds.h"
#include "apps/training/training.h"
#include "apps/training/tune_samples.h"
#include "base/log.h"
#include "checkpoint/step_folders.h"
#include "comm/operation.h"
#include "config/resume.h"
#include "engine/from_recipe.h"
#include "models/recipe_model.h"
#include "peft/added_parameters.h"
#include "preferences/reference.h"
#include "store/model_source.h"
#include "train/run_checkpoints.h"
#include "train/run_folder.h"
#include "train/stop_request.h"
#include "tune/classifier.h"
#include "tune/frozen_weights.h"
#include "tune/initial_weights.h"
#include "tune/prompt_start.h"
#include "tune/recipe_rules.h"
#include "tune/seed_runs.h"

namespace megalith::apps {
namespace {

/// The model that is trained: the one that is there, or a classifier of it.
models::ModelSpec tuned_model(const store::ModelSource& model, const config::Recipe& recipe) {
  if (recipe.classifies()) return tune::classifier_of(model.spec(), recipe.tune);
  if (!model.spec().is_causal()) {
    throw UserError("{}: tune.method {} learns the next token, and model.family {} has no decoder",
                    recipe.tune.model, recipe.tune.method, model.spec().family);
  }
  if (model.spec().is_encoder_decoder() && recipe.compares()) {
    throw UserError(
        "{}: tune.objective: dpo is not built for encoder-decoders, as model.family {} is",
        recipe.tune.model, model.spec().family);
  }
  return model.spec();
}

/// Checks the lengths of an encoder-decoder's two sides.
void check_answers(const models::ModelSpec& model, const config::Recipe& recipe) {
  const int64_t length = recipe.tune.answer_length;
  if (!model.is_encoder_decoder()) {
    if (length > 0)
      throw UserError(
          "recipe: tune.answer_length is for encoder-decoders, and model.family {} is not one; "
          "take it out of the recipe",
          model.family);
    return;
  }
  if (length > model.context) {
    throw UserError("recipe: tune.answer_length {} is more than the context of {}, {}", length,
                    recipe.tune.model, model.context);
  }
  if (length == 1 || recipe.train.sequence_length == 1)
    throw UserError(
        "recipe: train.sequence_length and tune.answer_length leave no room for a text and its "
        "end; set at least 2");
}

/// What a recipe says of the model and only the model can tell.
void check_sizes(const store::ModelSource& model, const config::Recipe& recipe) {
  if (recipe.train.sequence_length > model.spec().context) {
    throw UserError("recipe: train.sequence_length {} is more than the context of {}, {}",
                    recipe.train.sequence_length, recipe.tune.model, model.spec().context);
  }
  check_answers(model.spec(), recipe);
  const auto rows = [&](int shards) { return model.spec().padded_vocab(shards); };
  if (const int64_t count = virtual_tokens_of(recipe), length = recipe.train.sequence_length;
      count > 0) {
    if (count > model.spec().context - 2)
      throw UserError("recipe: tune.virtual_tokens {} leaves no room in the context of {}, {}",
                      count, recipe.tune.model, model.spec().context);
    if (length > 0 && count > length - 2)
      throw UserError(
          "recipe: tune.virtual_tokens {} leaves no room for texts in train.sequence_length {}; "
          "set fewer, or longer samples",
          count, length);
  }
  if (rows(model.tensor_shards()) != rows(narrow<int>(recipe.parallel.tensor_shards))) {
    throw UserError("{}: its vocabulary is padded for parallel.tensor_shards {}; set that",
                    recipe.tune.model, model.tensor_shards());
  }
}

/// What a run of these weights begins with, and what its checkpoints carry on.
void begin_with_model(const store::ModelSource& model, std::vector<int32_t> prompt,
                      const RankPlace& place, train::RunInputs& inputs) {
  comm::require_same(place.world, "the model of tune.model", inputs.base);
  inputs.initial_weights = [&model, prompt = std::move(prompt)](engine::Engine& engine) {
    tune::begin_with(model, prompt, engine);
  };
  inputs.facts.init = {{"path", inputs.recipe.tune.model}, {"fingerprint", inputs.base}};
  inputs.texts = model.texts();
  std::erase_if(inputs.texts, [](const auto& text) {
    return text.first == "tokenizer.json" || text.first.find('/') != std::string::npos;
  });
  inputs.state["end_ids"] = model.end_ids();
  if (model.begin_id()) inputs.state["begin_id"] = *model.begin_id();
  if (model.pad_id()) inputs.state["pad_id"] = *model.pad_id();
}

/// What answers are compared with is of the weights that the run begins with; kept as long as it
/// is.
std::shared_ptr<const void> compare_with_start(const Samples& training, const Samples& validation,
                                               train::RunInputs& inputs) {
  if (training.preferences == nullptr) return nullptr;
  const auto reference = std::make_shared<const tune::Reference>(
      inputs.recipe, inputs.base, *training.preferences, validation.preferences.get(),
      std::filesystem::path(inputs.recipe.run.out) / train::kFirstValues);
  inputs.of_first_weights = {
      [reference](comm::Communicator& world) { return reference->take_kept(world); },
      [reference](engine::Engine& engine, FunctionRef<bool()> stop) {
        return reference->make(engine, stop);
      }};
  return reference;
}

/// How validations score answers to questions.
void judge_answers(const Samples& validation, train::RunInputs& inputs) {
  if (validation.judge == nullptr) return;
  inputs.spans = {
      [judge = validation.judge](const data::HostBatch& batch, std::span<const double> y_TO,
                                 std::vector<double>& kept) { judge->keep(batch, y_TO, kept); },
      [judge = validation.judge](int64_t samples, std::span<const double> kept) {
        return judge->scores(samples, kept);
      },
      validation.judge->fingerprint()};
}

/// The commands that read the adapter which a run has trained, for the log.
std::string_view who_takes_it(const config::Recipe& recipe) {
  if (!recipe.tune.splits.empty())
    return "generate, evaluate score and serve take it as --adapter, for texts with the marks";
  if (!recipe.classifies()) return "generate, evaluate and serve take it as --adapter";
  switch (recipe.tune.task) {
    case config::ClassifyTask::sequence_classification:
      break;
    case config::ClassifyTask::token_classification:
      return "evaluate tags and classify take it as --adapter, its head with it";
    case config::ClassifyTask::question_answering:
      return "evaluate answers takes it as --adapter, its head with it";
  }
  return "evaluate classify takes it as --adapter, its head with it";
}

/// Writes the adapter of the newest checkpoint of a run that is over, or of the best that it kept,
/// as a folder beside its report.
void write_adapter(const config::Recipe& recipe, const tune::AddedParameters& added) {
  const std::filesystem::path run = recipe.run.out;
  const auto newest = checkpoint::find_newest(run / "checkpoints", false);
  if (!newest) return;  // it was stopped before its first save
  const auto best =
      recipe.checkpoint.keep_best ? train::best_kept(*newest, recipe.train.best_by) : std::nullopt;
  added.write(run / "adapter", best ? *best : *newest);
  const std::string step = best ? fmt::format(", of step {}", best->step()) : "";
  if (recipe.tune.tasks.empty())
    log::info("the adapter is {}{}; {}", (run / "adapter").string(), step, who_takes_it(recipe));
  for (const config::TuneTask& task : recipe.tune.tasks)
    log::info("the adapter of task {} is {}{}; {}", task.name,
              (run / "adapter" / task.name).string(), step, who_takes_it(recipe));
}

/// Logs what trains beside the model, and how the frozen weights are held.
void describe(const tune::AddedParameters& added, const config::Recipe& recipe,
              const store::ModelSource& model) {
  log::info("{}", added.description);
  const std::string held = tune::description_of(tune::frozen_formats(recipe, model));
  if (!held.empty()) log::info("frozen weights: {}", held);
}
void train_beside(const store::ModelSource& model, const tune::AddedParameters& added,
                  const config::Recipe& recipe, engine::Settings& settings) {
  added.add_to(settings);
  settings.formats = tune::frozen_formats(recipe, model);
}

config::Recipe load_tuning(const RecipeOptions& options) {
  config::Recipe recipe = options.load(), standard;
  models::complete(standard.model);
  tune::check_recipe(recipe, standard, options.path);
  return recipe;
}

int tune_model(const RecipeOptions& options, const TrainingOptions& extra, bool json) {
  const train::StopRequest stop;  // first: a signal during the start is a wish too
  config::check_allow(extra.allow);
  config::Recipe recipe = load_tuning(options);
  const std::optional<Launch> launch = settle_ranks(recipe, extra.ranks);
  const auto model =
      store::ModelSource::open(recipe.tune.model, narrow<int>(recipe.parallel.tensor_shards));
  if (recipe.parallel.tensor_shards == 0) recipe.parallel.tensor_shards = model.tensor_shards();
  check_sizes(model, recipe);
  const models::ModelSpec spec = tuned_model(model, recipe);
  check_samples(recipe, model.tokenizer(), model.spec().context - virtual_tokens_of(recipe),
                options.path);
  const std::vector<config::Recipe> recipes = tune::recipes_of_seeds(recipe);
  for (const config::Recipe& one : recipes)
    if (extra.restart) check_restart(one, "tune.model", one.tune.model, options.path);
  const auto added = tune::added_parameters(recipe.tune, spec, model.tensor_shards());
  const Marks marks = marks_of(recipe, model);
  const Samples training = read_samples(SamplesFor::training, recipe, model, marks);
  const Samples validation = recipe.train.validate_every == 0
                                 ? Samples{}
                                 : read_samples(SamplesFor::validation, recipe, model, marks);
  const int64_t most_learned = std::max(training.most_learned, validation.most_learned);
  if (added) describe(*added, recipe, model);
  const std::string base = model.weights().fingerprint();
  std::vector<Training> runs;
  for (const config::Recipe& one : recipes) {
    const auto seed = static_cast<uint64_t>(one.run.seed);
    // Of its own, since each run begins with a reference of its own.
    const Samples samples = in_order_of(training, seed);
    const Samples held_out = validation.source ? in_order_of(validation, seed) : validation;
    std::vector<int32_t> prompt;
    if (one.tune.method == config::TuneMethod::prompt)
      prompt = tune::first_tokens(one.tune, model.require_tokenizer(), spec.vocab, seed);
    runs.push_back(
        {.recipe = one,
         .tokenizer = &model.require_tokenizer(),
         .base = base,
         .settings =
             [&](const config::Recipe& candidate) {
               engine::Settings settings =
                   engine::settings_of(candidate, spec, [&](engine::Settings& s) {
                     if (added) train_beside(model, *added, candidate, s);
                   });
               settings.predicted_per_sample =
                   most_learned < settings.loss_length() ? most_learned : 0;
               return settings;
             },
         .training_samples = [samples](const engine::Settings&) { return samples.source; },
         .validation_samples = [held_out](const engine::Settings&) { return held_out.source; },
         .begin = [&, prompt, samples, held_out](const RankPlace& place, train::RunInputs& inputs)
             -> std::shared_ptr<const void> {
           begin_with_model(model, prompt, place, inputs);
           judge_answers(held_out, inputs);
           return compare_with_start(samples, held_out, inputs);
         }});
    if (added) runs.back().ended = [&] { write_adapter(one, *added); };
  }
  if (recipe.tune.seeds == 1) return run_training(runs.front(), launch, stop, extra, json);
  return run_seeds(recipe, runs, launch, stop, extra, json);
}

}  // namespace

void add_tune(CLI::App& app, Invocation& invocation) {
  add_training_command(
      app, invocation, "tune",
      "tune a model on chats, prompts with answers or preferences, as a recipe says; resumes by "
      "itself",
      "  megalith tune recipes/tune/full.yaml --set tune.model=models/smollm2 "
      "--set tune.data=chats.jsonl\n"
      "  megalith tune recipes/tune/lora.yaml --set tune.model=models/smollm2 "
      "--set tune.data=chats.jsonl --set tune.rank=16\n",
      tune_model);
}

}  // namespace megalith::apps

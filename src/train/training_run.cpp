// SPDX-License-Identifier: Apache-2.0
#include "train/training_run.h"

#include "account/measured_memory.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "comm/operation.h"
#include "engine/state.h"
#include "families/model_spec_json.h"
#include "models/recipe_model.h"
#include "train/resume_check.h"
#include "train/run_folder.h"

namespace megalith::train {
namespace {

namespace fs = std::filesystem;

std::string sha256_of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

engine::Settings with_length(const RunInputs& inputs, const RunLength& length) {
  engine::Settings settings = inputs.settings;
  set_length(settings, length, inputs.recipe.optimizer.decay_steps);
  return settings;
}

}  // namespace

TrainingRun::TrainingRun(const RunInputs& inputs, comm::Communicator& world, device::Device& device)
    : inputs_(inputs),
      recipe_(inputs.recipe),
      world_(world),
      device_(device),
      length_(run_length(recipe_, inputs.settings, inputs.training.samples_per_epoch())),
      settings_(with_length(inputs, length_)),
      data_fingerprint_(inputs.training.fingerprint(at_work())),
      guard_(recipe_.train, is_rank_zero()),
      deadline_(recipe_.parallel.deadline_seconds),
      journal_(recipe_.run.out, is_rank_zero()) {
  require_same_inputs();
  world_.set_device(&device);
  mesh_ = std::make_unique<parallel::Mesh>(world_, settings_.layout);
  engine_ = std::make_unique<engine::Engine>(settings_, device, *mesh_);
  fp8_watch_ = std::make_unique<Fp8Watch>(*engine_, is_rank_zero());
  register_state();
  checkpoints_ = std::make_unique<RunCheckpoints>(recipe_, inputs.tokenizer, inputs.texts, state_,
                                                  engine::state_bytes(*engine_), world_, device_);
}

void TrainingRun::register_state() {
  using Values = checkpoint::StateRegistry::Values;
  using nlohmann::json;
  const auto recorded = [this](const std::string& key, auto save) {
    state_.add(Values{key, save, [](const json&) {}});
  };
  state_.add(Values{"", [this] { return to_json(position_); },
                    [this](const json& state) { position_ = position_from(state); }});
  recorded("architecture", [this] { return models::to_json(settings_.model); });
  recorded("tensor_shards", [this] { return json(settings_.split.tensor_shards); });
  if (settings_.fp8) recorded("fp8_products", [this] { return json(settings_.fp8_products()); });
  for (const auto& [key, value] : inputs_.state.items())
    recorded(key, [value = value] { return value; });
  if (!inputs_.base.empty())
    recorded(std::string(base_key(recipe_)), [this] { return json(inputs_.base); });
  recorded("data_fingerprint", [this] { return json(data_fingerprint_); });
  state_.add(Values{"guard", [this] { return guard_.to_json(); },
                    [this](const json& state) {
                      if (state.contains("guard")) guard_.restore(state["guard"]);
                    }});
  state_.add(Values{"fp8_guard", [this] { return fp8_watch_->to_json(); },
                    [this](const json& state) {
                      if (state.contains("fp8_guard")) fp8_watch_->restore(state["fp8_guard"]);
                    }});
  state_.add(Values{"best", [this] { return best_.to_json(); },
                    [this](const json& state) {
                      best_ = guards::BestValidation(best_.by());
                      if (!state.contains("best")) return;
                      const auto saved = guards::BestValidation::from_json(state["best"]);
                      if (saved.by() == best_.by()) best_ = saved;
                    }});
  if (engine_->loss_scaler() != nullptr)
    state_.add(Values{"loss_scale", [this] { return engine_->loss_scaler()->to_json(); },
                      [this](const json& state) {
                        if (state.contains("loss_scale"))
                          engine_->loss_scaler()->restore(state["loss_scale"]);
                      }});
  state_.add(Values{"owed", [this] { return owed_ ? to_json(*owed_) : json(); },
                    [this](const json& state) { owed_ = deferred_from(state, position_.step); }});
  state_.add(checkpoint::StateRegistry::Tensors{
      [this] {
        spread_ = std::make_unique<engine::ShardedOptimizerState>(*engine_);
        return engine::state_tensors(*engine_, *spread_);
      },
      [this](const checkpoint::Reader& reader) { engine::load_state(reader, *engine_); }});
}

/// All ranks were given the same recipe, data and tokenizer. Collective.
void TrainingRun::require_same_inputs() {
  comm::require_same(world_, "the recipe", models::fingerprint_of(recipe_));
  comm::require_same(world_, "the data", data_fingerprint_);
  const bool has_files = !recipe_.data.validation.empty() || recipe_.tune.has_validation();
  if (inputs_.validation != nullptr && has_files)  // else a part of the training data
    comm::require_same(world_, "the validation data", inputs_.validation->fingerprint(at_work()));
  if (inputs_.spans.scores)
    comm::require_same(world_, "what answers are scored by", inputs_.spans.fingerprint);
  if (inputs_.tokenizer != nullptr)
    comm::require_same(world_, "the tokenizer", sha256_of(inputs_.tokenizer->to_json()));
  // Keys that change no result change what ranks do together; these two do not.
  config::Recipe shared = recipe_;
  shared.run.out.clear();
  shared.run.threads = 0;
  comm::require_same(world_, "a key of the recipe", sha256_of(config::to_yaml(shared)));
}

void TrainingRun::load_from(int64_t sample) {
  loader_ =
      std::make_unique<engine::DataLoader>(inputs_.training, settings_, mesh_->data(), sample);
}

void TrainingRun::resume_or_begin() {
  const InBucket loading(journal_.goodput(), Bucket::load);
  const fs::path folder = recipe_.run.out;
  if (is_rank_zero()) remove_leftovers(folder);
  const auto newest = checkpoints_->newest([&](const checkpoint::Reader& reader) {
    check_resume(recipe_, inputs_.training, data_fingerprint_, inputs_.tokenizer, inputs_.base,
                 reader, inputs_.facts.allow);
  });
  const bool lacks = lacks_first_values();
  if (newest) {
    if (settings_.trains_beside_weights() || lacks) inputs_.initial_weights(*engine_);
    if (lacks) make_first_values();
    restore(*newest);
    journal_.resume(*newest, position_.logs);
  } else {
    position_.logs = journal_.begin();
    if (inputs_.initial_weights) {
      inputs_.initial_weights(*engine_);
    } else {
      engine_->initialise();
    }
    if (lacks) make_first_values();
  }
  journal_.open(position_, owed_ && owed_->what == DeferredWork::What::validation);
  if (is_rank_zero()) write_file_durable(folder / "recipe.yaml", config::to_yaml(recipe_));
}

bool TrainingRun::lacks_first_values() {
  return inputs_.of_first_weights.make && !inputs_.of_first_weights.take_kept(world_);
}

/// A signal on the way ends the run before its first step: the next start makes them.
void TrainingRun::make_first_values() {
  inputs_.of_first_weights.make(*engine_, [this] { return told_to_stop(); });
}

void TrainingRun::restore(const checkpoint::Reader& reader) {
  owed_.reset();
  checkpoints_->restore(reader);
}

/// What run.json says of the run from its start on.
void TrainingRun::describe_run() {
  nlohmann::ordered_json& json = journal_.record();
  json["name"] =
      recipe_.run.name.empty() ? fs::path(recipe_.run.out).filename().string() : recipe_.run.name;
  json["version"] = inputs_.facts.version;
  json["seed"] = recipe_.run.seed;
  json["machine"] = inputs_.facts.machine;
  json["parameters"] = settings_.model.num_parameters();
  json["recipe_fingerprint"] = models::fingerprint_of(recipe_);
  json["data_fingerprint"] = data_fingerprint_;
  if (!inputs_.facts.init.is_null()) json["init"] = inputs_.facts.init;
  json["memory"]["planned"] = inputs_.facts.planned_memory;
  json["gemm_ceiling_gflops"] = inputs_.facts.gemm_ceiling_flops / 1e9;
  json["step_flops"] = inputs_.facts.step_flops;
  if (!json.contains("started")) json["started"] = iso_time(wall_seconds());
}

void TrainingRun::save() {
  const InBucket saving(journal_.goodput(), Bucket::checkpoint);
  if (is_rank_zero()) position_.logs = journal_.sync();
  checkpoints_->save(position_.step, what_of(owed_));
  spread_.reset();
  if (!recipe_.checkpoint.async) wait_for_save();
}

/// Training stands still until the save is complete; the record then says so.
void TrainingRun::wait_for_save() {
  const InBucket waiting(journal_.goodput(), Bucket::checkpoint);
  const nlohmann::ordered_json saved = checkpoints_->wait();
  if (saved.is_null()) return;
  journal_.record().update(saved);
  journal_.write_record("running", position_);
}

/// Back to the last regular checkpoint, and on with the samples after those seen since. The
/// checkpoint's state decides all that follows, so a run that is killed on the way does the same
/// again. False when there is none. Collective.
bool TrainingRun::rewind() {
  const InBucket loading(journal_.goodput(), Bucket::load);
  wait_for_save();
  const auto target = checkpoints_->go_back_before(position_.step);
  if (!target) return false;
  const Position spiked = position_;
  const int64_t rewinds = guard_.rewinds();
  restore(*target);
  const int64_t beyond =
      recipe_.train.spike_skip * optim::batch_size(settings_.batch, spiked.samples);
  guard_.rewound(rewinds, spiked.samples + beyond - position_.samples);
  position_.samples = spiked.samples + beyond;
  position_.elapsed_seconds = spiked.elapsed_seconds;
  load_from(position_.samples);
  journal_.reopen(position_, owed_ && owed_->what == DeferredWork::What::validation,
                  last_.step_seconds);
  return true;
}

/// Which step validated best, and where it is kept.
void TrainingRun::record_best() {
  if (!best_.step()) {
    journal_.record().erase("best");  // by another number, before train.best_by was changed
    if (recipe_.checkpoint.keep_best && best_.no_better() > 0)
      log::warning(
          "checkpoint.keep_best: no validation has a number as its {}, so none is the best",
          best_.by());
    return;
  }
  const std::string name = best_.is_by_loss() ? "validation_loss" : best_.by();
  nlohmann::ordered_json best = {{"step", *best_.step()}, {name, best_.value()}};
  const fs::path folder = fs::path("checkpoints") / checkpoint::step_folder_name(*best_.step());
  const bool is_kept = recipe_.checkpoint.keep_best && fs::exists(recipe_.run.out / folder);
  if (is_kept) best["checkpoint"] = folder.string();
  journal_.record()["best"] = best;
  if (recipe_.checkpoint.keep_best)
    log::info("the {}, {:.4f}, is that of step {}: {}",
              best_.is_by_loss() ? "lowest validation loss" : "highest validation " + best_.by(),
              best_.value(), *best_.step(),
              is_kept ? (recipe_.run.out / folder).string() : "its checkpoint is not there");
}

/// Why the run ends before its length is reached.
void TrainingRun::say_if_gave_up() const {
  if (signal_ == 0 && best_.gave_up(recipe_.train.early_stopping))
    log::info("step {}: {} validations in a row came no {} (train.early_stopping)", position_.step,
              best_.no_better(), best_.is_by_loss() ? "lower" : "higher");
}

RunResult TrainingRun::finish() {
  if (!checkpoints_->has(position_.step, what_of(owed_))) save();
  journal_.goodput().enter(Bucket::checkpoint);
  wait_for_save();
  checkpoints_->tidy(position_.step);  // what a start that had nothing to do found too many
  if (is_rank_zero()) {
    record_best();
    say_if_gave_up();
  }
  journal_.record()["memory"]["measured"] =
      account::measured_memory(world_, device_, resident_at_start_);
  const std::string status = signal_ != 0 ? "stopped" : "finished";
  journal_.write_record(status, position_);
  return {journal_.last(), status, signal_};
}

}  // namespace megalith::train

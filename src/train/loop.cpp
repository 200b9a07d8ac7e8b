// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include <algorithm>

#include "account/measured_memory.h"
#include "account/plan.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "engine/from_recipe.h"
#include "engine/state.h"
#include "models/recipe_model.h"
#include "train/accounts.h"
#include "train/agreement.h"
#include "train/data_road.h"
#include "train/deadline.h"
#include "train/earlier_run.h"
#include "train/leftovers.h"
#include "train/not_finite.h"
#include "train/owed_step.h"
#include "train/product_choices.h"
#include "train/progress.h"
#include "train/resume_check.h"
#include "train/run_guard.h"
#include "train/run_inputs.h"
#include "train/run_record.h"
#include "train/validation.h"

namespace megalith::train {
namespace {

namespace fs = std::filesystem;

std::string sha256_of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

/// One run, from its folder to its end.
class TrainingRun {
 public:
  TrainingRun(const config::Recipe& recipe, const text::Tokenizer* tokenizer, const RunFacts& facts,
              const Hooks& hooks, comm::Communicator& world, device::Device& device,
              const StopRequest* stop, bool show_progress);
  RunResult go();

 private:
  /// All ranks were given the same recipe, data and tokenizer. Collective.
  void require_same_inputs();
  void resume_or_begin();
  void restore(const checkpoint::Reader& reader);
  LoggedSteps logged_so_far(int64_t recorded) const;
  void write_record(const std::string& status);
  report::StepMetrics train_step();
  std::optional<double> validate();
  bool watch(bool saving, std::optional<Progress>& progress);
  void end_step(bool saving, std::optional<Progress>& progress);
  void require_room();
  bool rewind();
  fs::path checkpoint_to_go_back_to();
  void write_samples(Progress* progress);
  void save();
  void wait_for_save();
  bool at_end() const { return length_.is_reached(position_.step, position_.elapsed_seconds); }
  RunResult finish();
  bool leads() const { return world_.rank() == 0; }
  /// Other ranks wait while this one reads and checks files.
  checkpoint::AtWork at_work() {
    return [this] { world_.sign_of_life(); };
  }
  /// Takes over what all ranks agree on: a signal, rank 0's clock, and finite_. Collective.
  void agree_on(double elapsed_seconds);
  /// The same of the signal alone.
  bool told_to_stop();

  const StopRequest* stop_;  // null on a rank that does not listen
  comm::Communicator& world_;
  int signal_ = 0;  // agreed on
  config::Recipe recipe_;
  const text::Tokenizer* tokenizer_;
  const RunFacts& facts_;
  const Hooks& hooks_;
  device::Device& device_;
  fs::path folder_;
  engine::Settings settings_;
  data::BatchOptions batch_options_;
  data::Sampler sampler_;
  std::unique_ptr<data::Sampler> validation_;
  RunLength length_;
  int64_t resident_at_start_ = account::resident_memory().now;
  std::unique_ptr<parallel::Mesh> mesh_;
  std::unique_ptr<engine::Engine> engine_;
  std::string data_fingerprint_;
  Position position_;
  RunGuard guard_;
  Deadline deadline_;
  std::optional<std::string> not_finite_;  // the last step's first tensor that is not finite
  bool finite_ = true;                     // what the last update wrote
  std::optional<OwedStep> owed_;           // what the last step has not done
  std::unique_ptr<RunLog> log_;            // rank 0's
  std::unique_ptr<DataRoad> road_;
  std::unique_ptr<checkpoint::Saver> saver_;
  RunRecord record_;                   // rank 0's is written
  Accounts accounts_;                  // so are its
  report::StepMetrics last_, logged_;  // the last step, and the last with a line in the logs
  int64_t saved_step_ = -1;
  double stall_seconds_ = 0;  // training stood still for that save
  std::optional<OwedStep::What> saved_owed_;
  bool show_progress_;
};

TrainingRun::TrainingRun(const config::Recipe& recipe, const text::Tokenizer* tokenizer,
                         const RunFacts& facts, const Hooks& hooks, comm::Communicator& world,
                         device::Device& device, const StopRequest* stop, bool show_progress)
    : stop_(stop),
      world_(world),
      recipe_(recipe),
      tokenizer_(tokenizer),
      facts_(facts),
      hooks_(hooks),
      device_(device),
      folder_(recipe.run.out),
      settings_(engine::settings_of(recipe, tokenizer != nullptr ? tokenizer->vocab_size() : 0)),
      batch_options_(batch_options_of(
          recipe, tokenizer != nullptr ? tokenizer->end_of_document() : std::nullopt)),
      sampler_(corpora_of(recipe.data.train),
               sampler_options(recipe, settings_, data::Split::train)),
      validation_(validation_sampler(recipe, settings_)),
      length_(run_length(recipe, settings_, sampler_.samples_per_epoch())),
      guard_(recipe.train, world.rank() == 0),
      deadline_(recipe.parallel.deadline_seconds),
      record_(folder_),
      show_progress_(show_progress) {
  set_length(settings_, length_, recipe.optimizer.decay_steps);
  data_fingerprint_ = sampler_.fingerprint(at_work());
  require_same_inputs();
  world_.set_device(&device);
  mesh_ = std::make_unique<parallel::Mesh>(world_, settings_.layout);
  engine_ = std::make_unique<engine::Engine>(settings_, device, *mesh_);
  saver_ = std::make_unique<checkpoint::Saver>(
      folder_ / "checkpoints",
      checkpoint::SaverOptions{recipe.checkpoint.keep, recipe.checkpoint.async,
                               recipe.checkpoint.every},
      &world_);
  saver_->reserve(device_, engine::state_bytes(*engine_));
}

void TrainingRun::require_same_inputs() {
  comm::require_same(world_, "the recipe", models::fingerprint_of(recipe_));
  comm::require_same(world_, "the data", data_fingerprint_);
  if (validation_ != nullptr && !recipe_.data.validation.empty())  // else of the same files
    comm::require_same(world_, "the validation data", validation_->fingerprint(at_work()));
  if (tokenizer_ != nullptr)
    comm::require_same(world_, "the tokenizer", sha256_of(tokenizer_->to_json()));
  // Keys that change no result change what ranks do together; these two do not.
  config::Recipe shared = recipe_;
  shared.run.out.clear();
  shared.run.threads = 0;
  comm::require_same(world_, "a key of the recipe", sha256_of(config::to_yaml(shared)));
}

void TrainingRun::agree_on(double elapsed_seconds) {
  const Agreed agreed =
      agree(world_, {stop_ != nullptr ? stop_->signal() : 0, elapsed_seconds, finite_});
  position_.elapsed_seconds = agreed.elapsed_seconds;
  finite_ = agreed.finite;
  signal_ = std::max(signal_, agreed.signal);
}

bool TrainingRun::told_to_stop() {
  signal_ = std::max(signal_, agree(world_, {stop_ != nullptr ? stop_->signal() : 0, 0}).signal);
  return signal_ != 0;
}

void TrainingRun::resume_or_begin() {
  const InBucket loading(accounts_, Bucket::load);
  // Rank 0 looks, so that all find the same one.
  std::optional<checkpoint::Reader> reader;
  if (leads()) {
    remove_leftovers(folder_);
    reader = checkpoint::find_newest(folder_ / "checkpoints", true, at_work());
    if (reader)
      check_resume(recipe_, sampler_, data_fingerprint_, tokenizer_, *reader, facts_.allow);
  }
  const fs::path newest =
      world_.exchange(reader ? reader->folder().string() : "", "newest checkpoint")[0];
  if (!newest.empty()) {
    if (!reader) reader.emplace(newest, at_work());
    comm::require_same(world_, "the newest checkpoint", reader->state_sha256());
    restore(*reader);
    note_checkpoint(record_, *reader, position_.logs);
    if (leads()) log::info("resuming from {}", newest.string());
  } else {
    if (leads()) position_.logs = begin_logs(folder_, record_);
    engine_->initialise();
  }
  if (!leads()) return;
  if (record_.damage()) {
    log::warning("{}: {}; it begins anew, and the accounts of earlier starts with it",
                 (folder_ / "run.json").string(), *record_.damage());
  }
  const LoggedSteps logged = logged_so_far(Accounts::recorded_step(record_.json()));
  accounts_.resume(record_.json(), logged.recorded_seconds, logged.later_seconds);
  log_ = std::make_unique<RunLog>(folder_, position_.logs);
  logged_ = logged.last.value_or(logged_);
  write_file_durable(folder_ / "recipe.yaml", config::to_yaml(recipe_));
}

/// By the position that was restored: its logs end before the line that the last step may owe.
LoggedSteps TrainingRun::logged_so_far(int64_t recorded) const {
  const bool owes_line = owed_ && owed_->what == OwedStep::What::validation;
  return logged_steps(folder_, position_.step, position_.step - (owes_line ? 1 : 0), recorded);
}

/// Everything that a checkpoint holds.
void TrainingRun::restore(const checkpoint::Reader& reader) {
  const nlohmann::json& state = reader.state();
  position_ = position_from(state);
  if (state.contains("guard")) guard_.restore(state["guard"]);
  owed_ = owed_from(state, position_.step);
  engine::load_state(reader, *engine_);
  saved_step_ = position_.step;
  saved_owed_ = what_of(owed_);
}

void TrainingRun::write_record(const std::string& status) {
  if (!leads()) return;
  auto& json = record_.json();
  json["name"] = recipe_.run.name.empty() ? folder_.filename().string() : recipe_.run.name;
  json["status"] = status;
  json["version"] = facts_.version;
  json["seed"] = recipe_.run.seed;
  json["machine"] = facts_.machine;
  json["parameters"] = settings_.model.num_parameters();
  json["recipe_fingerprint"] = models::fingerprint_of(recipe_);
  json["data_fingerprint"] = data_fingerprint_;
  json["memory"]["planned"] = facts_.planned_memory;
  json["gemm_ceiling_gflops"] = facts_.gemm_ceiling_flops / 1e9;
  json["step_flops"] = facts_.step_flops;
  if (!json.contains("started")) json["started"] = iso_time(wall_seconds());
  json["seconds"] = position_.elapsed_seconds;
  json["accounts"] = accounts_.to_json(position_.step);
  record_.write();
}

/// Training stands still until the save is complete; the record then says so.
void TrainingRun::wait_for_save() {
  const InBucket waiting(accounts_, Bucket::checkpoint);
  const double begin = monotonic_seconds();
  const checkpoint::Saved* const saved = saver_->wait();
  if (saved == nullptr) return;
  stall_seconds_ += monotonic_seconds() - begin;
  auto& json = record_.json();
  json["state_sha256"] = saved->state_sha256;
  json["checkpoint"] = {{"step", saved->step},
                        {"bytes", saved->bytes},
                        {"stall_seconds", stall_seconds_},
                        {"write_seconds", saved->write_seconds}};
  write_record("running");
}

report::StepMetrics TrainingRun::train_step() {
  accounts_.enter(Bucket::data_wait);
  DataRoad::Step data = road_->next();
  const int64_t step = position_.step + 1;
  if (hooks_.before_step) hooks_.before_step(*engine_, step);
  accounts_.enter(Bucket::steps);
  const double begin = monotonic_seconds();
  const double lr = optim::learning_rate(settings_.schedule, {step, position_.elapsed_seconds});
  const engine::StepResult result =
      engine_->step(step, lr, data.micro_batches, data.global_weight, guard_.skipped_steps());
  not_finite_.reset();
  if (!result.applied) {
    accounts_.enter(Bucket::skipped);
    not_finite_ = first_not_finite(*engine_, step, data.micro_batches, data.global_weight);
  }
  finite_ = update_is_finite(*engine_);
  const double seconds = monotonic_seconds() - begin;
  deadline_.step_took(seconds);
  world_.set_deadline(deadline_.seconds());
  if (hooks_.after_step) hooks_.after_step(*engine_, step, seconds);
  const int64_t tokens = data.samples * settings_.sequence_length();
  position_.step = step;
  position_.samples += data.samples;
  position_.tokens += tokens;
  report::StepMetrics m;
  m.step = step;
  m.tokens = position_.tokens;
  m.samples = position_.samples;
  m.loss = result.loss;
  m.lr = lr;
  m.grad_norm = result.grad_norm;
  m.step_seconds = seconds;
  m.tokens_per_second = static_cast<double>(tokens) / seconds;
  const double flops = facts_.step_flops * static_cast<double>(data.samples) /
                       static_cast<double>(settings_.batch.full);
  m.mfu = facts_.gemm_ceiling_flops > 0 ? flops / seconds / facts_.gemm_ceiling_flops : 0;
  m.memory_bytes = device_.total().peak;
  road_->recycle(std::move(data));
  return m;
}

std::optional<double> TrainingRun::validate() {
  const InBucket validating(accounts_, Bucket::validation);
  const int64_t samples =
      std::min(recipe_.train.validate_samples, validation_->samples_per_epoch());
  // A wish to stop does not wait for this: the step then owes it.
  return validation_loss(*engine_, *validation_, samples, batch_options_,
                         [this] { return told_to_stop(); });
}

void TrainingRun::save() {
  const InBucket saving(accounts_, Bucket::checkpoint);
  const double begin = monotonic_seconds();
  std::map<std::string, std::string> texts;  // rank 0 writes them
  if (leads()) {
    position_.logs = log_->sync();
    world_.sign_of_life();
    texts["recipe.yaml"] = config::to_yaml(recipe_);
    if (tokenizer_ != nullptr) texts["tokenizer.json"] = tokenizer_->to_json();
  }
  engine::SpreadState spread(*engine_);
  const auto tensors = engine::state_tensors(*engine_, spread);
  nlohmann::json state = state_json(position_, settings_, data_fingerprint_);
  state["guard"] = guard_.to_json();
  if (owed_) state["owed"] = to_json(*owed_);
  if (settings_.numerics == kernels::Numerics::fast)
    state["products"] = choices_json(device_.target());
  saver_->save(device_, position_.step, tensors, std::move(state), std::move(texts));
  stall_seconds_ = monotonic_seconds() - begin;
  saved_step_ = position_.step;
  saved_owed_ = what_of(owed_);
  if (!recipe_.checkpoint.async) wait_for_save();
}

RunResult TrainingRun::finish() {
  if (saved_step_ != position_.step || saved_owed_ != what_of(owed_)) save();
  accounts_.enter(Bucket::checkpoint);
  wait_for_save();
  saver_->tidy(position_.step);  // what a start that had nothing to do found too many
  record_.json()["memory"]["measured"] =
      account::measured_memory(world_, device_, resident_at_start_);
  const std::string status = signal_ != 0 ? "stopped" : "finished";
  write_record(status);
  return {logged_, status, signal_};
}

/// Judges the step just taken, before anything else comes of it: what ends the run must win over a
/// signal, which would save the step and have the next start judge it, in vain, again. True when
/// the run went back.
bool TrainingRun::watch(bool saving, std::optional<Progress>& progress) {
  std::optional<Spike> spike;
  try {
    if (not_finite_) {
      guard_.not_finite(last_.step, *not_finite_);
    } else {
      if (!finite_) refuse_update(*engine_, last_.step);
      spike = guard_.observe(last_.step, last_.loss);
    }
  } catch (const DoNotRestartError&) {
    try {
      end_step(saving, progress);
    } catch (const std::exception& error) {  // a save or a log that failed ends no run in its stead
      log::warning("step {}: {}", last_.step, error.what());
    }
    throw;
  }
  return spike && rewind();
}

/// The step ends when its line is written. A save in the background is complete at most one step
/// later, so no more than checkpoint.every of them are ever done twice.
void TrainingRun::end_step(bool saving, std::optional<Progress>& progress) {
  if (saving) wait_for_save();
  if (log_ != nullptr) log_->step(last_);
  if (progress) progress->step(last_, position_.elapsed_seconds);
  logged_ = last_;
}

void TrainingRun::require_room() {
  int64_t texts = 0;
  if (leads()) {
    texts = static_cast<int64_t>(config::to_yaml(recipe_).size());
    if (tokenizer_ != nullptr) texts += static_cast<int64_t>(tokenizer_->to_json().size());
  }
  saver_->require_room(engine::state_sizes(*engine_), texts);
}

/// The last regular checkpoint, as rank 0 finds it; empty when there is none. Those of later steps
/// are gone on return. Collective.
fs::path TrainingRun::checkpoint_to_go_back_to() {
  std::string found;
  if (leads()) {
    const auto target = regular_checkpoint_before(folder_ / "checkpoints", position_.step,
                                                  recipe_.checkpoint.every, at_work());
    if (target) {
      found = target->string();
      remove_checkpoints_after(folder_ / "checkpoints",
                               checkpoint::step_of_folder(target->filename().string()));
    } else {
      log::warning("there is no checkpoint to go back to; going on");
    }
  }
  return world_.exchange(found, "checkpoint to go back to")[0];
}

/// Back to the last regular checkpoint, and on with the samples after those seen since. The
/// checkpoint's state decides all that follows, so a run that is killed on the way does the same
/// again. Collective.
bool TrainingRun::rewind() {
  const InBucket loading(accounts_, Bucket::load);
  wait_for_save();
  const fs::path target = checkpoint_to_go_back_to();
  if (target.empty()) return false;
  const Position spiked = position_;
  const int64_t rewinds = guard_.rewinds();
  restore(checkpoint::Reader(target, at_work()));
  const int64_t beyond =
      recipe_.train.spike_skip * optim::batch_size(settings_.batch, spiked.samples);
  guard_.rewound(rewinds, spiked.samples + beyond - position_.samples);
  position_.samples = spiked.samples + beyond;
  position_.elapsed_seconds = spiked.elapsed_seconds;
  road_ = std::make_unique<DataRoad>(sampler_, batch_options_, settings_, mesh_->data(),
                                     position_.samples);
  if (!leads()) return true;
  const LoggedSteps logged = logged_so_far(INT64_MAX);
  accounts_.lose(logged.recorded_seconds + last_.step_seconds);
  log_ = std::make_unique<RunLog>(folder_, position_.logs);
  logged_ = logged.last.value_or(report::StepMetrics{});
  log::warning("went back to step {}; the next sample is {}", position_.step, position_.samples);
  return true;
}

void TrainingRun::write_samples(Progress* progress) {
  const InBucket writing(accounts_, Bucket::samples);
  for (const report::TextSample& sample : hooks_.samples(*engine_, position_.step)) {
    if (log_ != nullptr) log_->sample(sample);
    if (progress != nullptr) progress->note(fmt::format("  {}{}", sample.prompt, sample.text));
  }
}

RunResult TrainingRun::go() {
  resume_or_begin();
  if (owed_ || !at_end()) require_room();
  road_ = std::make_unique<DataRoad>(sampler_, batch_options_, settings_, mesh_->data(),
                                     position_.samples);
  write_record("running");
  std::optional<Progress> progress;
  if (show_progress_ && leads()) {
    progress.emplace(
        Progress::Options{length_.steps, length_.budget_seconds, recipe_.train.log_every});
  }
  const auto due = [&](int64_t every) {
    return every > 0 && (position_.step % every == 0 || at_end());
  };
  agree_on(position_.elapsed_seconds);
  while ((owed_ || !at_end()) && signal_ == 0) {
    const double begin = monotonic_seconds(), elapsed = position_.elapsed_seconds;
    const auto advance = [&] { agree_on(elapsed + monotonic_seconds() - begin); };
    const bool saving = saved_step_ == position_.step && saved_step_ > 0;
    const std::optional<OwedStep> owed = std::exchange(owed_, std::nullopt);
    last_ = owed ? owed->line : train_step();
    accounts_.enter(Bucket::logging);
    advance();
    if (!owed && watch(saving, progress)) continue;
    if (!owed || owed->what == OwedStep::What::validation) {
      if (validation_ != nullptr && due(recipe_.train.validate_every)) {
        last_.validation_loss = validate();
        if (!last_.validation_loss) {
          owed_ = OwedStep{OwedStep::What::validation, last_};
          break;
        }
      }
      advance();
      end_step(saving, progress);
    }
    if (hooks_.samples && due(recipe_.train.sample_every)) {
      if (signal_ != 0) {
        owed_ = OwedStep{OwedStep::What::samples, last_};
        break;
      }
      write_samples(progress ? &*progress : nullptr);
    }
    if (recipe_.checkpoint.every > 0 && position_.step % recipe_.checkpoint.every == 0) save();
    advance();
  }
  return finish();
}

}  // namespace

RunResult run_training(const config::Recipe& recipe, const text::Tokenizer* tokenizer,
                       const RunFacts& facts, const Hooks& hooks, comm::Communicator& world,
                       device::Device& device, const StopRequest* stop, bool show_progress) {
  return TrainingRun(recipe, tokenizer, facts, hooks, world, device, stop, show_progress).go();
}

}  // namespace megalith::train

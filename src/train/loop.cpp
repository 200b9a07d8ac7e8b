// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "engine/not_finite.h"
#include "engine/state.h"
#include "metrics/tags.h"
#include "spec/head_types.h"
#include "train/agreement.h"
#include "train/training_run.h"

namespace megalith::train {

namespace {

/// Of what a head of pairs tells, which is in the order of the names.
std::optional<report::ComparedMeans> compared_means(std::span<const double> told) {
  static_assert(std::ranges::equal(layers::kToldOfPairs, report::kComparedNames));
  report::ComparedMeans means{};
  if (told.size() != means.size()) return std::nullopt;
  std::ranges::copy(told, means.begin());
  return means;
}

}  // namespace

void TrainingRun::agree_on(double elapsed_seconds) {
  const Agreed agreed = agree(
      world_, {inputs_.stop != nullptr ? inputs_.stop->signal() : 0, elapsed_seconds, finite_});
  position_.elapsed_seconds = agreed.elapsed_seconds;
  finite_ = agreed.finite;
  signal_ = std::max(signal_, agreed.signal);
}

bool TrainingRun::told_to_stop() {
  signal_ = std::max(
      signal_, agree(world_, {inputs_.stop != nullptr ? inputs_.stop->signal() : 0, 0}).signal);
  return signal_ != 0;
}

report::StepMetrics TrainingRun::train_step() {
  journal_.goodput().enter(Bucket::data_wait);
  engine::DataLoader::Step data = loader_->next();
  const int64_t step = position_.step + 1;
  if (inputs_.hooks.before_step) inputs_.hooks.before_step(*engine_, step);
  journal_.goodput().enter(Bucket::steps);
  const double begin = monotonic_seconds();
  fp8_watch_->before_step(step, data.micro_batches);
  const double lr = optim::learning_rate(settings_.schedule, {step, position_.elapsed_seconds});
  const engine::StepResult result =
      engine_->step(step, lr, data.micro_batches, data.global_weight, guard_.skipped_steps());
  not_finite_.reset();
  overflowed_ = result.overflowed;
  if (!result.applied) journal_.goodput().enter(Bucket::skipped);
  if (!result.applied && !result.overflowed) {
    not_finite_ = engine::first_not_finite(*engine_, step, data.micro_batches, data.global_weight);
    if (result.loss_scale)
      *not_finite_ += fmt::format(" (loss scale {}{})", *result.loss_scale,
                                  engine_->loss_scaler()->options().dynamic
                                      ? ""
                                      : "; a smaller precision.loss_scale, or dynamic, may help");
  }
  finite_ = engine::update_is_finite(*engine_);
  const double seconds = monotonic_seconds() - begin;
  deadline_.step_took(seconds);
  world_.set_deadline(deadline_.seconds());
  if (inputs_.hooks.after_step) inputs_.hooks.after_step(*engine_, step, seconds);
  const int64_t tokens = data.samples * settings_.sequence_length();
  position_.step = step;
  position_.samples += data.samples;
  position_.tokens += tokens;
  const double flops = inputs_.facts.step_flops * static_cast<double>(data.samples) /
                       static_cast<double>(settings_.batch.full);
  const double ceiling = inputs_.facts.gemm_ceiling_flops;
  loader_->recycle(std::move(data));
  report::StepMetrics m;
  m.step = step;
  m.tokens = position_.tokens;
  m.samples = position_.samples;
  m.loss = result.loss;
  m.pair_loss = result.pair_loss;
  m.compared = compared_means(result.told);
  fp8_watch_->add_to(m);
  m.lr = lr;
  m.grad_norm = result.grad_norm;
  m.loss_scale = result.loss_scale;
  if (result.loss_scale)
    m.overflowed_steps = static_cast<double>(guard_.overflowed_steps() + (overflowed_ ? 1 : 0));
  m.step_seconds = seconds;
  m.tokens_per_second = static_cast<double>(tokens) / seconds;
  m.mfu = ceiling > 0 ? flops / seconds / ceiling : 0;
  m.memory_bytes = device_.total().peak;
  return m;
}

/// Judges the step just taken, before anything else comes of it: what ends the run must win over a
/// signal, which would save the step and have the next start judge it, in vain, again. False when
/// the run went back.
bool TrainingRun::judge(bool saving) {
  std::optional<guards::Spike> spike;
  try {
    if (not_finite_) {
      guard_.not_finite(last_.step, *not_finite_);
    } else if (overflowed_) {
      guard_.overflowed(last_.step, *last_.loss_scale,
                        static_cast<double>(engine_->loss_scaler()->host_scale()));
    } else {
      if (!finite_) engine::refuse_update(*engine_, last_.step);
      spike = guard_.observe(last_.step, last_.loss);
    }
  } catch (const DoNotRestartError&) {
    try {
      end_step(saving);
    } catch (const std::exception& error) {  // a save or a log that failed ends no run in its stead
      log::warning("step {}: {}", last_.step, error.what());
    }
    throw;
  }
  return !spike || !rewind();
}

int64_t TrainingRun::validation_samples() const {
  return std::min(recipe_.train.validate_samples, inputs_.validation->samples_per_epoch());
}

/// Scores of a validation of classes, regression values or answers; nothing for other heads.
metrics::Scores TrainingRun::scores_of(const engine::ValidationLoss& validated) const {
  if (inputs_.spans.scores)
    return inputs_.spans.scores(validation_samples(), validated.kept_of_spans);
  if (validated.targets.empty()) return {};
  const layers::HeadSpec& head = settings_.model.head;
  if (head.kind == layers::HeadKind::token_classification)
    return metrics::scores_of_tags(head.labels, validated.targets, validated.predictions,
                                   validated.answers);
  return head.kind == layers::HeadKind::sequence_classification
             ? metrics::scores_of_classes(validated.targets, validated.predictions, head.outputs)
             : metrics::scores_of_numbers(validated.targets, validated.predictions);
}

/// Of each task that the validation has tokens of.
report::NamedValues TrainingRun::task_losses_of(const engine::ValidationLoss& validated) const {
  report::NamedValues losses;
  for (size_t i = 0; i < validated.tasks.size(); ++i)
    if (validated.tasks[i]) losses.emplace_back(recipe_.tune.tasks.at(i).name, *validated.tasks[i]);
  return losses;
}

/// Whether the step's validation is the best so far, by the recipe's number.
bool TrainingRun::is_best(double loss, const metrics::Scores& scores) {
  if (best_.is_by_loss()) return best_.observe(position_.step, loss);
  const auto found = std::ranges::find(scores, best_.by(), &metrics::Scores::value_type::first);
  if (found == scores.end())
    throw UserError("recipe: train.best_by: validations give no {}; set it to loss", best_.by());
  return best_.observe(position_.step, found->second);
}

/// Nothing when a signal came first: the step then owes it.
std::optional<engine::ValidationLoss> TrainingRun::validate() {
  const InBucket validating(journal_.goodput(), Bucket::validation);
  return engine::validation_loss(
      *engine_, *inputs_.validation, validation_samples(), [this] { return told_to_stop(); },
      inputs_.spans.keep);
}

/// A save in the background is complete at most one step later, so no more than checkpoint.every of
/// them are ever done twice.
void TrainingRun::end_step(bool saving) {
  if (saving) wait_for_save();
  journal_.step(last_, position_.elapsed_seconds);
}

void TrainingRun::write_samples() {
  const InBucket writing(journal_.goodput(), Bucket::samples);
  engine_->complete_weights();
  for (const report::TextSample& sample : inputs_.hooks.samples(*engine_, position_.step))
    journal_.sample(sample);
}

/// Data, step, judgement, validation, log, samples, save. What a signal keeps the step from doing,
/// it owes: the next start does that first.
void TrainingRun::one_step() {
  const double begin = monotonic_seconds(), elapsed = position_.elapsed_seconds;
  const auto advance = [&] { agree_on(elapsed + monotonic_seconds() - begin); };
  const auto due = [&](int64_t every) {
    return every > 0 && (position_.step % every == 0 || at_end());
  };
  const bool saving = position_.step > 0 && checkpoints_->has(position_.step, what_of(owed_));
  const std::optional<DeferredWork> owed = std::exchange(owed_, std::nullopt);
  last_ = owed ? owed->line : train_step();
  journal_.goodput().enter(Bucket::logging);
  advance();
  if (!owed && !judge(saving)) return;
  bool saves_best = false;
  if (!owed || owed->what == DeferredWork::What::validation) {
    if (inputs_.validation != nullptr && due(recipe_.train.validate_every)) {
      const std::optional<engine::ValidationLoss> validated = validate();
      if (validated) {
        last_.validation_loss = validated->loss;
        last_.validation_pair_loss = validated->pair_loss;
        last_.validation_compared = compared_means(validated->told);
        last_.validation_scores = scores_of(*validated);
        last_.validation_task_losses = task_losses_of(*validated);
        saves_best = is_best(validated->loss, last_.validation_scores);
      } else {
        owed_ = DeferredWork{DeferredWork::What::validation, last_};
        return;
      }
    }
    advance();
    end_step(saving);
  }
  if (inputs_.hooks.samples && due(recipe_.train.sample_every)) {
    if (signal_ != 0) {
      owed_ = DeferredWork{DeferredWork::What::samples, last_};
      return;
    }
    write_samples();
  }
  const bool is_regular =
      recipe_.checkpoint.every > 0 && position_.step % recipe_.checkpoint.every == 0;
  if (is_regular || (saves_best && recipe_.checkpoint.keep_best)) save();
  advance();
}

RunResult TrainingRun::go() {
  resume_or_begin();
  if (owed_ || !at_end()) checkpoints_->require_room(engine::state_sizes(*engine_));
  load_from(position_.samples);
  describe_run();
  journal_.write_record("running", position_);
  if (inputs_.show_progress)
    journal_.watch({length_.steps, length_.budget_seconds, recipe_.train.log_every});
  agree_on(position_.elapsed_seconds);
  while ((owed_ || !at_end()) && signal_ == 0) one_step();
  return finish();
}

RunResult run_training(const RunInputs& inputs, comm::Communicator& world, device::Device& device) {
  return TrainingRun(inputs, world, device).go();
}

}  // namespace megalith::train

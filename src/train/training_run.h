// SPDX-License-Identifier: Apache-2.0
// One training run as one of its ranks goes through it: what it consists of. Its start, its saves
// and its end are in training_run.cpp, its steps in loop.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "account/plan.h"
#include "checkpoint/state_registry.h"
#include "engine/data_loader.h"
#include "engine/sharded_optimizer_state.h"
#include "engine/validation.h"
#include "guards/best_validation.h"
#include "guards/run_guard.h"
#include "metrics/classification.h"
#include "train/fp8_watch.h"
#include "train/loop.h"
#include "train/run_checkpoints.h"
#include "train/run_inputs.h"
#include "train/run_journal.h"
#include "train/timeout_policy.h"

namespace megalith::train {

/// One run, from its folder to its end.
class TrainingRun {
 public:
  TrainingRun(const RunInputs& inputs, comm::Communicator& world, device::Device& device);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;
  RunResult go();

 private:
  bool is_rank_zero() const { return world_.rank() == 0; }
  bool at_end() const {
    return length_.is_reached(position_.step, position_.elapsed_seconds) ||
           best_.gave_up(recipe_.train.early_stopping);
  }
  /// Other ranks wait while this one reads and checks files.
  checkpoint::AtWork at_work() {
    return [this] { world_.heartbeat(); };
  }
  void register_state();
  void require_same_inputs();
  void resume_or_begin();
  void restore(const checkpoint::Reader& reader);
  bool lacks_first_values();
  void make_first_values();
  void describe_run();
  void load_from(int64_t sample);
  /// Takes over what all ranks agree on: a signal, rank 0's clock, and finite_. Collective.
  void agree_on(double elapsed_seconds);
  /// The same of the signal alone.
  bool told_to_stop();

  void one_step();
  report::StepMetrics train_step();
  bool judge(bool saving);
  int64_t validation_samples() const;
  std::optional<engine::ValidationLoss> validate();
  metrics::Scores scores_of(const engine::ValidationLoss& validated) const;
  report::NamedValues task_losses_of(const engine::ValidationLoss& validated) const;
  bool is_best(double loss, const metrics::Scores& scores);
  void end_step(bool saving);
  void write_samples();
  void save();
  void wait_for_save();
  bool rewind();
  void record_best();
  void say_if_gave_up() const;
  RunResult finish();

  const RunInputs& inputs_;
  const config::Recipe& recipe_;
  comm::Communicator& world_;
  device::Device& device_;
  int64_t resident_at_start_ = account::resident_memory().now;
  RunLength length_;
  engine::Settings settings_;
  std::string data_fingerprint_;
  guards::RunGuard guard_;
  TimeoutPolicy deadline_;
  RunJournal journal_;
  checkpoint::StateRegistry state_;
  std::unique_ptr<parallel::Mesh> mesh_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Fp8Watch> fp8_watch_;
  std::unique_ptr<engine::ShardedOptimizerState> spread_;  // of the last save
  std::unique_ptr<RunCheckpoints> checkpoints_;
  std::unique_ptr<engine::DataLoader> loader_;
  Position position_;
  guards::BestValidation best_{std::string(settings::name_of(recipe_.train.best_by))};
  report::StepMetrics last_;               // of the last step
  std::optional<DeferredWork> owed_;       // what it has not done
  std::optional<std::string> not_finite_;  // its first tensor that is not finite
  bool overflowed_ = false;                // its gradients did, which a smaller loss scale answers
  bool finite_ = true;                     // what its update wrote
  int signal_ = 0;                         // agreed on
};

}  // namespace megalith::train

// SPDX-License-Identifier: Apache-2.0
// One optimizer step of a sharded model: forward and backward of every micro-batch through the
// pipeline schedule, gradients reduced in canonical order, clipped, applied. The same code runs
// under every layout (one rank is the schedule of one stage) and device kind.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/host_batch.h"
#include "engine/device_batch.h"
#include "engine/pipeline_stage.h"
#include "engine/sharded_model.h"
#include "optim/gradients.h"

namespace megalith::engine {

/// Host numbers, the same on every rank.
struct StepResult {
  double loss = 0;  // mean over the step's weighted units of loss, before the update
  std::optional<double> pair_loss;  // of this, the mean over sentence pairs
  /// Means over the units of what the head tells of them beside their losses (LossShape::told).
  std::vector<double> told;
  double grad_norm = 0;  // before clipping
  bool applied = true;   // false: one of the two is not finite, and the step changed nothing
  std::optional<double> loss_scale;  // that the gradients were made with
  /// Not applied because gradients overflowed, which smaller loss scales will answer.
  bool overflowed = false;
};

/// Of each sample.
struct SampleLosses {
  std::vector<double> sums;   // of loss x weight
  std::vector<double> pairs;  // loss of its sentence pair, where the head asks about them
  std::vector<double> told;   // weighted sums of what is told of its units: all of each sample
  /// Where sequences are of tasks (LossValues::task_sums).
  std::vector<double> tasks = {};
  /// Of a head with one prediction for each unit (Engine::predicts): see predictions_of,
  /// targets_of and, where units are tokens, answers_of.
  std::vector<double> predictions = {}, targets = {}, answers = {};
  /// Of a head of answer spans (Engine::finds_spans): the start and the end logit of each token.
  std::vector<double> span_logits = {};
};

class Engine {
 public:
  /// Takes memory for parameters, gradients and optimizer. Device and mesh must outlive it.
  /// Collective.
  Engine(const Settings& settings, device::Device& device, const parallel::Mesh& mesh);

  /// Takes one data shard's micro-batches through this stage. A plan may put its own in the place
  /// of the stage's passes; `completed` has to hear of the same parameters.
  using StageRunner = std::function<void(const PipelineStage::Work&)>;
  void set_stage_runner(StageRunner runner) { stage_runner_ = std::move(runner); }

  /// Weights from the seed. Every layout draws the same.
  void initialise();

  /// Step number `step` (from 1) on this data rank's part of the step's samples, cut into
  /// micro-batches in sample order. `global_weight` is the sum of loss weights over all ranks.
  /// Steps before this one that changed nothing are `skipped`: the optimizer does not count them.
  /// Collective; on return everything is done. Under the trace kind the result is empty.
  StepResult step(int64_t step, double lr, std::span<const data::HostBatch> micro_batches,
                  double global_weight, int64_t skipped = 0);

  /// How the products in 8 bits do: loss and gradients of the first sample of each of the step's
  /// data shards, with them and in 16 bits, from the weights as they stand. Takes the place of
  /// gradients; leaves no other trace. Needs Fp8Layers::guard's memory. Collective.
  precision::GuardCheck check_fp8(int64_t step, std::span<const data::HostBatch> micro_batches);

  /// With spread state, products in 8 bits whose weights have one scale and are stored in two
  /// bytes, and no guard, data ranks exchange codes in place of such weights: what a rank does not
  /// update is as it was when last brought. This brings it, for whoever reads weights beside steps.
  /// Collective.
  void complete_weights();

  using Inspector = std::function<void(std::string_view name, ConstView value)>;
  /// Forward and backward of step() once more, nothing else: gradients hold the step's sums
  /// afterwards, parameters and moments are untouched. `inspector` sees every activation and every
  /// gradient of one, in the order of computing. The loss values of this data rank's batches
  /// (losses()), on the last stage. Collective.
  std::vector<double> replay(int64_t step, std::span<const data::HostBatch> micro_batches,
                             double global_weight, const Inspector& inspector);

  /// The loss values of the batch (losses()), without dropout or gradients: on the last stage,
  /// nothing on others (and under the trace kind). Collective over the tensor and pipeline ranks,
  /// which give the same batch.
  std::vector<double> loss_values(const data::HostBatch& batch);
  /// The same as sums of loss x weight of each sample, losses of sentence pairs, and predictions.
  SampleLosses sample_losses(const data::HostBatch& batch);

  ShardedModel& model() { return model_; }
  const Settings& settings() const { return model_.settings(); }
  /// How the loss values of batches lie.
  const LossValues& losses() const { return losses_; }
  /// Whether sample_losses has predictions: the head predicts one class or value of each unit.
  bool predicts() const;
  /// Whether it has span_logits: the head says where answers begin and end.
  bool finds_spans() const;
  const parallel::Mesh& mesh() const { return model_.mesh(); }
  device::Device& device() { return model_.device(); }
  parameters::ParameterSet& parameters() { return model_.parameters(); }
  const parameters::ParameterSet& parameters() const { return model_.parameters(); }
  optim::AdamW& optimizer() { return *optimizer_; }
  /// The scales of products in 8 bits, the same on every rank; null where none is.
  precision::Fp8* fp8() const { return fp8_.get(); }
  /// What losses are multiplied by, the same on every rank; null where they are not.
  precision::LossScaler* loss_scaler() const { return loss_scaler_.get(); }

 private:
  /// What losses are divided by before they are differentiated: those of a step's samples, the loss
  /// scale included.
  struct LossScale {
    double global_weight = 0;
    double pairs = 0;
  };
  LossScale loss_scale(std::span<const data::HostBatch> micro_batches, double global_weight) const {
    return {global_weight / step_scale_, pairs_of(micro_batches) / step_scale_};
  }
  ConstView scale_on_device() const {
    return loss_scaler_ == nullptr ? ConstView() : loss_scaler_->scale();
  }
  void begin_scaled_step();
  void follow_gradients(ConstView norm, StepResult& result);
  void accumulate(int64_t step, std::span<const data::HostBatch> micro_batches,
                  const LossScale& scale, View loss_U, View finite, const Inspector* inspector);
  layers::Context training_context(uint64_t step_key, double dropout);
  void run_stage(layers::Context& context, const PipelineStage::Work& work);
  void cast_weights();
  void share_weights(bool applied, bool had_codes);
  bool shares_codes() const;
  bool codes_are_current() const { return codes_of_ != 0 && codes_of_ == weights_version(); }
  uint64_t weights_version() const;  // of those that have codes
  void update_scales(bool applied);
  struct LossAndNorm {
    double loss = 0;
    double norm = 0;
  };
  LossAndNorm differentiate(int64_t step, std::span<const data::HostBatch> samples,
                            const LossScale& scale, double weight);
  double gradient_norm_now();
  SampleLosses of_samples(std::span<const data::HostBatch> batches,
                          std::span<const double> loss_U) const;
  void set_losses(std::span<const data::HostBatch> micro_batches, ConstView loss_U,
                  double global_weight, StepResult& result);
  double pairs_of(std::span<const data::HostBatch> micro_batches) const;
  /// The loss values of a batch, and in `said`, where it is given, what the head predicts.
  std::vector<double> pass_of_losses(const data::HostBatch& batch, SampleLosses* said);
  void predict(layers::Context& context, const layers::Batch& batch, const data::HostBatch& host,
               ConstView x, SampleLosses& losses);
  DeviceBatch::TokenPart token_part() const;
  ShardedModel model_;
  LossValues losses_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<optim::NormOrder> norm_order_;
  std::unique_ptr<precision::Fp8> fp8_;
  std::unique_ptr<precision::LossScaler> loss_scaler_;
  double step_scale_ = 1;            // of the last step's losses
  device::Tensor narrow_gradients_;  // of check_fp8
  uint64_t codes_of_ = 0;            // weights_version() of which shared codes are; 0: none are
  bool weights_are_complete_ = true;
  StageRunner stage_runner_;
};

}  // namespace megalith::engine

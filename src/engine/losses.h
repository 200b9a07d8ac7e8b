// SPDX-License-Identifier: Apache-2.0
// From the loss values of a head on the device to one number: f64 chains in the order of units
// within a sample, then in sample order, so that neither micro-batches nor data ranks show.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/host_batch.h"
#include "device/device.h"
#include "engine/settings.h"
#include "heads/head.h"

namespace megalith::engine {

/// Where the loss values of micro-batches lie: batch behind batch, in each as many as its shapes
/// give (layers::LossShape).
class LossValues {
 public:
  explicit LossValues(const Settings& settings)
      : shape_(layers::loss_shape(settings.model.head, settings.preferences)),
        ragged_(settings.ragged),
        predicted_per_sample_(settings.predicted_per_sample) {}

  const layers::LossShape& shape() const { return shape_; }
  /// Most tokens of a sample that weigh anything; 0: all.
  int64_t predicted_per_sample() const { return predicted_per_sample_; }
  /// Sequences that a batch of these sizes may have: what memory is taken for.
  int64_t max_sequences(const data::HostBatch& batch) const {
    return ragged_ ? batch.num_tokens() : batch.num_samples;
  }
  int64_t count(const data::HostBatch& batch) const {
    return units(batch) * (1 + shape_.told) + num_pairs(batch);
  }
  /// What of a batch has a loss; numbers that are told of them come behind, one after the other.
  int64_t units(const data::HostBatch& batch) const {
    return shape_.values(batch.num_tokens(), max_sequences(batch));
  }
  /// Their losses come behind the others of a batch.
  int64_t num_pairs(const data::HostBatch& batch) const {
    return shape_.pairs ? batch.num_samples : 0;
  }
  int64_t count(std::span<const data::HostBatch> batches) const;

  /// Per-sample sums of weight x loss; `loss_U` runs through all values of the batches.
  std::vector<double> sample_sums(std::span<const data::HostBatch> batches,
                                  std::span<const double> loss_U) const {
    return weighted_sums(batches, loss_U, 0, 1);
  }
  /// The same of what is told of units: of each sample all numbers.
  std::vector<double> told_sums(std::span<const data::HostBatch> batches,
                                std::span<const double> loss_U) const {
    return weighted_sums(batches, loss_U, 1, shape_.told);
  }
  /// Where units are tokens: of each sequence of a task that weighs something three numbers, in
  /// order: the task, the sum of weight x loss and that of the weights.
  std::vector<double> task_sums(const data::HostBatch& batch, std::span<const double> loss_U) const;
  /// The losses of all sentence pairs, in the order of samples; none where nothing is asked.
  std::vector<double> pair_losses(std::span<const data::HostBatch> batches,
                                  std::span<const double> loss_U) const;
  /// "token 3 of sample 7", by the number of a unit in its batch.
  std::string name(const data::HostBatch& batch, size_t unit) const;

 private:
  /// Of `numbers` numbers of each unit from `first` on, of which the loss is number 0.
  std::vector<double> weighted_sums(std::span<const data::HostBatch> batches,
                                    std::span<const double> loss_U, int64_t first,
                                    int64_t numbers) const;
  /// The sample of the run that a unit belongs to.
  int64_t sample_of(const data::HostBatch& batch, size_t unit) const;
  layers::LossShape shape_;
  bool ragged_;
  int64_t predicted_per_sample_;
};

/// What a head says of each unit of the batch that counts, in order, one number each: the class of
/// its largest output (of equal ones the first; NaN where an output is not finite), or of a head
/// that predicts a number that. y_UO: its outputs, unit after unit.
std::vector<double> predictions_of(const data::HostBatch& batch, std::span<const double> y_UO,
                                   int64_t outputs);
/// What is right, likewise.
std::vector<double> targets_of(const data::HostBatch& batch);
/// Where units are tokens: how many of these belong to each sequence that has any, in order.
std::vector<double> answers_of(const data::HostBatch& batch);

/// What the data ranks of the last stage have, rank by rank; equal on all. Collective over data and
/// pipeline ranks.
std::vector<double> of_all_ranks(const parallel::Mesh& mesh, std::span<const double> values,
                                 std::string_view label);
/// The sum of that, in its order.
double sum_over_ranks(const parallel::Mesh& mesh, std::span<const double> values,
                      std::string_view label);
/// Where samples have `count` numbers each: the sum of each number, divided by `weight`.
std::vector<double> means_over_ranks(const parallel::Mesh& mesh, std::span<const double> values,
                                     int64_t count, double weight, std::string_view label);

/// Of what task_sums() gives of each sequence of the ranks: the mean loss of each of `tasks` tasks,
/// nothing of one that weighs nothing.
std::vector<std::optional<double>> task_means_over_ranks(const parallel::Mesh& mesh,
                                                         std::span<const double> sums,
                                                         int64_t tasks, std::string_view label);

/// `finite` (i32 [1], accumulated) becomes 0 if a loss of the batch that counts is not finite.
void check_finite(kernels::Exec& exec, const layers::Batch& batch, ConstView loss_U, View finite);

/// The values of a device view of f32 or f64, on the host. Waits for them.
std::vector<double> read_losses(device::Device& device, ConstView loss_U);

}  // namespace megalith::engine

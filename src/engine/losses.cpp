// SPDX-License-Identifier: Apache-2.0
#include "engine/losses.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "kernels/reduction/norms.h"

namespace megalith::engine {

using layers::LossUnit;

int64_t LossValues::count(std::span<const data::HostBatch> batches) const {
  int64_t sum = 0;
  for (const data::HostBatch& batch : batches) sum += count(batch);
  return sum;
}

int64_t LossValues::sample_of(const data::HostBatch& batch, size_t unit) const {
  if (shape_.unit == LossUnit::sequence) return batch.sequence_sample[unit];
  if (shape_.unit == LossUnit::pair)
    return batch.first_sample + batch.compared_rows[3 * unit] / batch.sequence_length;
  return batch.first_sample + static_cast<int64_t>(unit) / batch.sequence_length;
}

std::vector<double> LossValues::weighted_sums(std::span<const data::HostBatch> batches,
                                              std::span<const double> loss_U, int64_t first,
                                              int64_t numbers) const {
  std::vector<double> sums;
  const auto each = static_cast<size_t>(numbers);
  size_t begin = 0;
  for (const data::HostBatch& batch : batches) {
    const size_t before = sums.size(), values = static_cast<size_t>(units(batch));
    sums.resize(before + static_cast<size_t>(batch.num_samples) * each, 0);
    for (size_t u = 0; u < batch.loss_weight_T.size(); ++u) {
      // A unit of weight 0 has no target to speak of: its loss may be anything.
      if (batch.loss_weight_T[u] == 0) continue;
      const auto sample = static_cast<size_t>(sample_of(batch, u) - batch.first_sample);
      const auto weight = static_cast<double>(batch.loss_weight_T[u]);
      for (size_t k = 0; k < each; ++k) {
        const size_t number = static_cast<size_t>(first) + k;
        sums[before + sample * each + k] += weight * loss_U[begin + number * values + u];
      }
    }
    begin += static_cast<size_t>(count(batch));
  }
  return sums;
}

std::vector<double> LossValues::task_sums(const data::HostBatch& batch,
                                          std::span<const double> loss_U) const {
  MEGA_CHECK(batch.sequence_task.empty() || shape_.unit == LossUnit::token, "tasks of no tokens");
  std::vector<double> sums;
  for (size_t s = 0; s < batch.sequence_task.size(); ++s) {
    double sum = 0, weight = 0;
    const auto end = static_cast<size_t>(batch.cu_seqlens[s + 1]);
    for (auto t = static_cast<size_t>(batch.cu_seqlens[s]); t < end; ++t) {
      if (batch.loss_weight_T[t] == 0) continue;  // its loss may be anything
      sum += static_cast<double>(batch.loss_weight_T[t]) * loss_U[t];
      weight += static_cast<double>(batch.loss_weight_T[t]);
    }
    if (weight == 0) continue;
    MEGA_CHECK_GE(batch.sequence_task[s], 0);
    sums.insert(sums.end(), {static_cast<double>(batch.sequence_task[s]), sum, weight});
  }
  return sums;
}

std::vector<double> LossValues::pair_losses(std::span<const data::HostBatch> batches,
                                            std::span<const double> loss_U) const {
  std::vector<double> losses;
  size_t end = 0;
  for (const data::HostBatch& batch : batches) {
    end += static_cast<size_t>(count(batch));
    const auto pairs = static_cast<size_t>(num_pairs(batch));
    std::ranges::copy(loss_U.subspan(end - pairs, pairs), std::back_inserter(losses));
  }
  return losses;
}

std::string LossValues::name(const data::HostBatch& batch, size_t unit) const {
  const int64_t sample = sample_of(batch, unit);
  if (shape_.unit == LossUnit::token)
    return fmt::format("token {} of sample {}", unit % static_cast<size_t>(batch.sequence_length),
                       sample);
  if (shape_.unit == LossUnit::pair) {
    size_t first = unit;
    while (first > 0 && sample_of(batch, first - 1) == sample) --first;
    return fmt::format("pair {} of sample {}", unit - first, sample);
  }
  const auto first = std::ranges::find(batch.sequence_sample, sample);
  return fmt::format("sequence {} of sample {}",
                     static_cast<int64_t>(unit) - (first - batch.sequence_sample.begin()), sample);
}

namespace {

/// The first of the largest; NaN where one is not finite, which has no largest that means anything.
double class_of(std::span<const double> logits) {
  if (!std::ranges::all_of(logits, [](double x) { return std::isfinite(x); }))
    return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

std::vector<double> predictions_of(const data::HostBatch& batch, std::span<const double> y_UO,
                                   int64_t outputs) {
  std::vector<double> said;
  for (size_t u = 0; u < batch.loss_weight_T.size(); ++u) {
    if (batch.loss_weight_T[u] == 0) continue;
    const auto o = static_cast<size_t>(outputs);
    const std::span<const double> unit = y_UO.subspan(u * o, o);
    const bool is_number = batch.targets_T.empty();
    said.push_back(is_number ? unit[0] : class_of(unit));
  }
  return said;
}

std::vector<double> targets_of(const data::HostBatch& batch) {
  std::vector<double> right;
  for (size_t u = 0; u < batch.loss_weight_T.size(); ++u) {
    if (batch.loss_weight_T[u] == 0) continue;
    right.push_back(batch.targets_T.empty() ? static_cast<double>(batch.target_numbers[u])
                                            : batch.targets_T[u]);
  }
  return right;
}

std::vector<double> answers_of(const data::HostBatch& batch) {
  std::vector<double> counts;
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
    const auto begin = batch.loss_weight_T.begin() + batch.cu_seqlens[s];
    const auto end = batch.loss_weight_T.begin() + batch.cu_seqlens[s + 1];
    const auto count = (end - begin) - std::count(begin, end, 0.0f);
    if (count > 0) counts.push_back(static_cast<double>(count));
  }
  return counts;
}

std::vector<double> of_all_ranks(const parallel::Mesh& mesh, std::span<const double> values,
                                 std::string_view label) {
  const std::vector<double> of_stage = mesh.data().exchange_values(values, label);
  return mesh.pipeline().exchange_values(std::span<const double>(of_stage), label);
}

double sum_over_ranks(const parallel::Mesh& mesh, std::span<const double> values,
                      std::string_view label) {
  double sum = 0;
  for (const double x : of_all_ranks(mesh, values, label)) sum += x;
  return sum;
}

std::vector<double> means_over_ranks(const parallel::Mesh& mesh, std::span<const double> values,
                                     int64_t count, double weight, std::string_view label) {
  std::vector<double> means(static_cast<size_t>(count), 0);
  const std::vector<double> all = of_all_ranks(mesh, values, label);
  for (size_t i = 0; i < all.size(); ++i) means[i % means.size()] += all[i];
  for (double& mean : means) mean /= weight;
  return means;
}

std::vector<std::optional<double>> task_means_over_ranks(const parallel::Mesh& mesh,
                                                         std::span<const double> sums,
                                                         int64_t tasks, std::string_view label) {
  std::vector<double> sum(static_cast<size_t>(tasks), 0), weight(sum);
  const std::vector<double> all = of_all_ranks(mesh, sums, label);
  for (size_t i = 0; i < all.size(); i += 3) {
    const auto task = static_cast<size_t>(all[i]);
    MEGA_CHECK_LT(task, sum.size());
    sum[task] += all[i + 1];
    weight[task] += all[i + 2];
  }
  std::vector<std::optional<double>> means(sum.size());
  for (size_t i = 0; i < means.size(); ++i)
    if (weight[i] > 0) means[i] = sum[i] / weight[i];
  return means;
}

void check_finite(kernels::Exec& exec, const layers::Batch& batch, ConstView loss_U, View finite) {
  const int64_t units = batch.loss_weight_T.size(0);
  kernels::all_finite(exec, {.x = loss_U.rows(0, units),
                             .flag = finite,
                             .accumulate = true,
                             .weight = batch.loss_weight_T});
  const int64_t pairs = loss_U.size(0) - units;
  if (pairs > 0)
    kernels::all_finite(exec, {.x = loss_U.rows(units, pairs), .flag = finite, .accumulate = true});
}

std::vector<double> read_losses(device::Device& device, ConstView loss_U) {
  std::vector<double> host(static_cast<size_t>(loss_U.num_elements()));
  if (loss_U.dtype() == DType::f64) {
    device.wait(device.copy_to_host(host.data(), loss_U));
  } else {
    std::vector<float> narrow(host.size());
    device.wait(device.copy_to_host(narrow.data(), loss_U));
    std::ranges::copy(narrow, host.begin());
  }
  return host;
}

}  // namespace megalith::engine

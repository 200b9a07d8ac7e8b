// SPDX-License-Identifier: Apache-2.0
// What products in 8 bits ask of a step beside the products themselves: their scales, and checks.
#include <limits>

#include "engine/engine.h"
#include "kernels/elementwise/pointwise.h"
#include "optim/sharding.h"
#include "optim/weight_codes.h"

namespace megalith::engine {

void Engine::cast_weights() {
  if (fp8_ == nullptr) return;
  if (codes_are_current()) return optim::record_weights(model_.exec(), *fp8_, parameters());
  optim::cast_weights(model_.exec(), mesh().tensor(), *fp8_, parameters());
}

/// What checks compare with, and what products fall back to, is weights. Weights in four bytes are
/// their own masters, which saves read whole.
bool Engine::shares_codes() const {
  return fp8_ != nullptr && !fp8_->flat_weight_codes().absent() &&
         narrow_gradients_.view.absent() && bytes_of(settings().weights) == 2;
}

uint64_t Engine::weights_version() const {
  uint64_t version = 1;
  for (const parameters::Parameter& parameter : parameters().all())
    if (fp8_->find(parameter.name())) version += parameter.version();
  return version;
}

void Engine::complete_weights() {
  if (weights_are_complete_) return;
  const bool had_codes = codes_are_current();
  optim::share_weights(model_.exec(), mesh().data(), parameters(), [&](const auto& parameter) {
    return fp8_->find(parameter.name()).has_value();
  });
  weights_are_complete_ = true;
  if (had_codes) codes_of_ = weights_version();
}

/// Ends a step of the scales: magnitudes are those of all ranks' parts of a tensor, in any order. A
/// step that changed nothing leaves no trace in them either.
void Engine::update_scales(bool applied) {
  if (fp8_ == nullptr) return;
  const device::Tensor staged_3N = fp8_->staged(model_.exec());
  if (staged_3N.view.absent()) return;
  if (!applied) {
    kernels::fill(model_.exec(), staged_3N, 0);
    return fp8_->set_staged(model_.exec(), staged_3N);
  }
  mesh().world().wait(mesh().world().start_all_reduce_max(staged_3N, "step.amax"));
  fp8_->set_staged(model_.exec(), staged_3N);
  fp8_->update(model_.exec());
}

double Engine::gradient_norm_now() {
  const optim::GradientNorm norm = optim::gradient_norm(
      model_.exec(), mesh(), parameters(), *norm_order_, std::numeric_limits<double>::infinity());
  double host = 0;
  device().wait(device().copy_to_host(&host, norm.norm.view));
  return host;
}

/// The mean loss of `samples`, of this weight in all, and the norm of their part of the step's
/// gradient.
Engine::LossAndNorm Engine::differentiate(int64_t step, std::span<const data::HostBatch> samples,
                                          const LossScale& scale, double weight) {
  const device::Tensor loss_U =
      model_.exec().workspace.tensor(settings().masters, Shape{losses_.count(samples)});
  const device::Tensor finite = model_.exec().workspace.tensor(DType::i32, Shape{1});
  kernels::fill(model_.exec(), finite, 1);
  accumulate(step, samples, scale, loss_U, finite, nullptr);
  optim::combine_gradients(model_.exec(), mesh(), parameters(), model_.tied());
  StepResult result;
  set_losses(samples, loss_U, weight, result);
  return {result.loss, gradient_norm_now()};
}

/// The cosine follows from three norms, whose sums have one order under every layout.
precision::GuardCheck Engine::check_fp8(int64_t step,
                                        std::span<const data::HostBatch> micro_batches) {
  MEGA_CHECK(fp8_ != nullptr && !narrow_gradients_.view.absent(), "no memory for a check");
  mesh().world().set_step(step);
  const precision::Unrecorded unrecorded(fp8_.get());
  const auto shards = static_cast<size_t>(settings().shards_per_rank());
  const size_t per_shard = exact_div(micro_batches.size(), shards);
  std::vector<data::HostBatch> samples;
  std::vector<double> weights, all_weights;
  for (size_t shard = 0; shard < shards; ++shard)
    samples.push_back(data::first_sample(micro_batches[shard * per_shard]));
  if (mesh().is_last_stage()) {
    for (const data::HostBatch& sample : samples) weights.push_back(sample.total_weight);
    for (const data::HostBatch& batch : micro_batches) all_weights.push_back(batch.total_weight);
  }
  const double weight = sum_over_ranks(mesh(), weights, "fp8.weight");
  // Gradients as large as the step's own: delayed scales are made for those.
  const LossScale scale =
      loss_scale(micro_batches, sum_over_ranks(mesh(), all_weights, "fp8.all_weights"));
  precision::GuardCheck check;
  if (!(weight > 0)) return check;  // nothing of these samples counts
  kernels::Exec& exec = model_.exec();
  fp8_->set_counting(true);
  const LossAndNorm narrow = differentiate(step, samples, scale, weight);
  fp8_->set_counting(false);
  const View sums = parameters().flat_gradient_sums(), kept = narrow_gradients_;
  device().copy(kept, sums);
  fp8_->set_all_wide(true);
  const LossAndNorm wide = differentiate(step, samples, scale, weight);
  fp8_->set_all_wide(false);
  kernels::scale(exec, kept, -1.0f);
  kernels::add(exec, sums, kept, sums);
  const double difference = gradient_norm_now();
  check.loss = narrow.loss;
  check.wide_loss = wide.loss;
  const double product = narrow.norm * wide.norm;
  if (product > 0) {
    const double squares = narrow.norm * narrow.norm + wide.norm * wide.norm;
    check.cosine = (squares - difference * difference) / (2 * product);
  }
  check.shares = fp8_->take_shares(exec, [&](View counts) {
    mesh().world().wait(mesh().world().start_all_reduce_sum(counts, "fp8.counts"));
  });
  return check;
}

}  // namespace megalith::engine

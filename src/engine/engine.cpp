// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <cmath>

#include "kernels/elementwise/pointwise.h"
#include "kernels/reduction/norms.h"
#include "optim/gradient_buckets.h"
#include "optim/sharding.h"
#include "optim/shared_weights.h"
#include "optim/weight_codes.h"
#include "parallel/executor.h"
#include "parallel/tree.h"

namespace megalith::engine {
namespace {

parameters::Storage storage_of(const Settings& settings, const parallel::Mesh& mesh) {
  const bool spread = settings.zero == 1;
  return {.master = settings.masters,
          .compute = settings.weights,
          .gradient_levels = parallel::TreeAccumulator(settings.shards_per_rank()).num_buffers(),
          .owner = spread ? mesh.at().data : 0,
          .owners = spread ? mesh.layout().data : 1,
          .bucket_elements = settings.bucket_elements};
}

}  // namespace

Engine::Engine(const Settings& settings, device::Device& device, const parallel::Mesh& mesh)
    : model_(settings, device, mesh, storage_of(settings, mesh)),
      losses_(settings),
      optimizer_(std::make_unique<optim::AdamW>(model_.parameters(), device, settings.adamw)),
      fp8_(make_fp8(settings, device)) {
  if (settings.loss_scale)
    loss_scaler_ = std::make_unique<precision::LossScaler>(device, *settings.loss_scale);
  if (fp8_ != nullptr) optim::allocate_codes(*fp8_, model_.parameters());
  if (settings.fp8 && settings.fp8->guard.every > 0) {
    const View sums = model_.parameters().flat_gradient_sums();
    narrow_gradients_ =
        device.arena(device::MemoryClass::gradients).tensor(sums.dtype(), sums.shape());
  }
  MEGA_CHECK_LE(settings.zero, 1);
  parameters::ParameterSet whole(settings.declaration_rule());
  const models::Decoder declarations(settings.model, whole, models::Stage::whole(settings.model),
                                     undivided(settings));
  norm_order_ = std::make_unique<optim::NormOrder>(whole);
}

void Engine::initialise() { parameters().initialise(device(), settings().seed); }

DeviceBatch::TokenPart Engine::token_part() const {
  if (!settings().sequence_parallel()) return {};
  return {mesh().at().tensor, mesh().layout().tensor};
}

layers::Context Engine::training_context(uint64_t step_key, double dropout) {
  layers::Context context = model_.training_context(step_key, dropout);
  context.fp8 = fp8_.get();
  return context;
}

void Engine::run_stage(layers::Context& context, const PipelineStage::Work& task) {
  PipelineStage work(model_.chunks(), context, task);
  const auto schedule =
      parallel::make_schedule(settings().pipeline_schedule, mesh().layout().pipeline,
                              static_cast<int>(task.micro_batches.size()), mesh().layout().chunks);
  parallel::execute(schedule[static_cast<size_t>(mesh().at().pipeline)], mesh().pipeline(), work);
}

void Engine::accumulate(int64_t step, std::span<const data::HostBatch> micro_batches,
                        const LossScale& scale, View loss_U, View finite,
                        const Inspector* inspector) {
  layers::Context context = training_context(
      random_key(settings().seed, static_cast<uint64_t>(step)), settings().model.dropout);
  context.inspector = inspector;
  parameters().derive(model_.exec());
  cast_weights();
  const int shards = settings().shards_per_rank();
  const parallel::TreeAccumulator tree(shards);
  const size_t per_shard = exact_div(micro_batches.size(), static_cast<size_t>(shards));
  optim::GradientBuckets buckets(model_.exec(), mesh().data(), parameters(),
                                 tree.additions_after(shards - 1));
  // Buckets go from the last parameter to the first.
  const size_t wait_below = parameters().complete_last();
  size_t complete_from = parameters().all().size();
  int64_t value = 0;
  for (int shard = 0; shard < shards; ++shard) {
    const int level = tree.buffer_of(shard);
    parameters().select_level(level);
    parameters().zero_gradient_sums(device(), level);
    const auto mine = micro_batches.subspan(static_cast<size_t>(shard) * per_shard, per_shard);
    const int64_t values = losses_.count(mine);
    PipelineStage::Work task{mine,
                             scale.global_weight,
                             scale.pairs,
                             losses_,
                             token_part(),
                             settings().recompute,
                             static_cast<float>(settings().z_loss),
                             loss_U.rows(value, values),
                             finite,
                             {}};
    const bool is_last = shard + 1 == shards;
    if (is_last) {
      task.completed = [&](const parameters::ParameterRun& run) {
        if (run.begin < wait_below || run.begin == run.end) return;
        complete_from = run.begin;
        buckets.complete(run);
      };
    }
    if (stage_runner_) {
      stage_runner_(task);
    } else {
      run_stage(context, task);
    }
    value += values;
    optim::sum_uses(model_.exec(), mesh(), parameters());
    parameters().backward_derived(model_.exec());
    if (is_last) {  // the buckets do its additions
      if (wait_below > 0) buckets.complete({0, complete_from});
      break;
    }
    for (const auto& [into, from] : tree.additions_after(shard)) {
      const View sum = parameters().flat_gradient_sums(into);
      kernels::add(model_.exec(), sum, parameters().flat_gradient_sums(from), sum);
    }
  }
  buckets.finish();
}

/// Sentence pairs of all ranks: one of each sample.
double Engine::pairs_of(std::span<const data::HostBatch> micro_batches) const {
  int64_t samples = 0;
  for (const data::HostBatch& batch : micro_batches) samples += batch.num_samples;
  return static_cast<double>(samples * mesh().layout().data);
}

SampleLosses Engine::of_samples(std::span<const data::HostBatch> batches,
                                std::span<const double> loss_U) const {
  return {losses_.sample_sums(batches, loss_U), losses_.pair_losses(batches, loss_U),
          losses_.told_sums(batches, loss_U)};
}

void Engine::set_losses(std::span<const data::HostBatch> micro_batches, ConstView loss_U,
                        double global_weight, StepResult& result) {
  SampleLosses losses;
  if (mesh().is_last_stage()) losses = of_samples(micro_batches, read_losses(device(), loss_U));
  result.loss = sum_over_ranks(mesh(), losses.sums, "step.loss") / global_weight;
  if (const int64_t told = losses_.shape().told; told > 0)
    result.told = means_over_ranks(mesh(), losses.told, told, global_weight, "step.told");
  if (!losses_.shape().pairs) return;
  result.pair_loss =
      sum_over_ranks(mesh(), losses.pairs, "step.pair_loss") / pairs_of(micro_batches);
  result.loss += *result.pair_loss;
}

StepResult Engine::step(int64_t step, double lr, std::span<const data::HostBatch> micro_batches,
                        double global_weight, int64_t skipped) {
  mesh().world().set_step(step);
  const device::Tensor loss_U =
      model_.exec().workspace.tensor(settings().masters, Shape{losses_.count(micro_batches)});
  const device::Tensor finite = model_.exec().workspace.tensor(DType::i32, Shape{1});
  kernels::fill(model_.exec(), finite, std::isfinite(1 / global_weight) ? 1 : 0);
  begin_scaled_step();
  accumulate(step, micro_batches, loss_scale(micro_batches, global_weight), loss_U, finite,
             nullptr);
  optim::combine_gradients(model_.exec(), mesh(), parameters(), model_.tied());
  const optim::GradientNorm norm = optim::gradient_norm(
      model_.exec(), mesh(), parameters(), *norm_order_, settings().clip, scale_on_device());
  // Up to here nothing that lasts has changed, and if any loss or the norm is not finite, nothing
  // will: the device decides. The host hears of it when the update is queued.
  mesh().world().wait(mesh().world().start_all_reduce_min(finite, "step.finite"));
  kernels::all_finite(model_.exec(), {.x = norm.norm, .flag = finite, .accumulate = true});
  const bool had_codes = codes_are_current();
  optimizer_->update(model_.exec(), step - skipped, lr, norm.factor, finite);
  StepResult result;
  if (!device().is_trace()) {
    int32_t applied = 0;
    device().copy_to_host(&applied, finite.view);
    device().wait(device().copy_to_host(&result.grad_norm, norm.norm.view));
    result.applied = applied != 0;
    set_losses(micro_batches, loss_U, global_weight, result);
  }
  follow_gradients(norm.norm, result);
  update_scales(result.applied);
  if (parameters().storage().owners > 1) share_weights(result.applied, had_codes);
  // Now, when least else is in workspace, for whoever reads the weights next.
  parameters().derive(model_.exec());
  return result;
}

/// With spread state the host waits for the decision: what was not updated is not shared, so that
/// who looks for the cause finds all as it was.
void Engine::share_weights(bool applied, bool had_codes) {
  const bool as_codes = shares_codes();
  if (applied) {
    optim::share_weights(model_.exec(), mesh().data(), parameters(), [&](const auto& parameter) {
      return !as_codes || !fp8_->find(parameter.name());
    });
    if (as_codes) optim::share_codes(model_.exec(), mesh(), *fp8_, parameters());
    weights_are_complete_ = !as_codes;
  }
  if (as_codes && (applied || had_codes)) codes_of_ = weights_version();
}

std::vector<double> Engine::replay(int64_t step, std::span<const data::HostBatch> micro_batches,
                                   double global_weight, const Inspector& inspector) {
  mesh().world().set_step(step);
  const device::Tensor loss_U =
      model_.exec().workspace.tensor(settings().masters, Shape{losses_.count(micro_batches)});
  accumulate(step, micro_batches, loss_scale(micro_batches, global_weight), loss_U, {}, &inspector);
  optim::combine_gradients(model_.exec(), mesh(), parameters(), model_.tied());
  update_scales(false);
  return mesh().is_last_stage() ? read_losses(device(), loss_U) : std::vector<double>();
}

bool Engine::predicts() const {
  const layers::HeadSpec& head = settings().model.head;
  return head.kind == layers::HeadKind::sequence_classification ||
         head.kind == layers::HeadKind::token_classification ||
         (head.kind == layers::HeadKind::sequence_regression && head.outputs == 1);
}

bool Engine::finds_spans() const {
  return settings().model.head.kind == layers::HeadKind::question_answering;
}

void Engine::predict(layers::Context& context, const layers::Batch& batch,
                     const data::HostBatch& host, ConstView x, SampleLosses& losses) {
  const int64_t outputs = settings().model.head.outputs;
  const int64_t rows = finds_spans() ? host.num_tokens() : losses_.units(host);
  const device::Tensor y_UO =
      model_.exec().workspace.tensor(settings().masters, Shape{rows, outputs});
  model_.head().outputs(context, batch, x, y_UO);
  if (device().is_trace()) return;
  if (finds_spans()) {
    losses.span_logits = read_losses(device(), y_UO);
    return;
  }
  losses.predictions = predictions_of(host, read_losses(device(), y_UO), outputs);
  losses.targets = targets_of(host);
  if (losses_.shape().unit == layers::LossUnit::token) losses.answers = answers_of(host);
}

std::vector<double> Engine::pass_of_losses(const data::HostBatch& host, SampleLosses* said) {
  layers::Context context = training_context(0, 0);
  const precision::Unrecorded unrecorded(fp8_.get());
  cast_weights();
  const DeviceBatch batch(
      device(), host,
      {losses_.max_sequences(host), losses_.shape(), losses_.predicted_per_sample(),
       settings().model.embedding.token_types > 0},
      1, token_part());
  const device::Tensor x = context.workspace(
      context.activation, Shape{models::StreamRows(batch.batch()).all(), settings().model.hidden});
  model_.through_stages(x, "validation.activation",
                        [&](const models::Decoder& model_chunk, size_t) {
                          model_chunk.hidden(context, batch.batch(), x);
                        });
  if (!mesh().is_last_stage()) return {};
  const device::Tensor loss_U =
      model_.exec().workspace.tensor(settings().masters, Shape{losses_.count(host)});
  model_.head().score(context, batch.batch(), x, loss_U);
  if (said != nullptr && (predicts() || finds_spans()))
    predict(context, batch.batch(), host, x, *said);
  if (device().is_trace()) return {};
  return read_losses(device(), loss_U);
}

std::vector<double> Engine::loss_values(const data::HostBatch& host) {
  return pass_of_losses(host, nullptr);
}

SampleLosses Engine::sample_losses(const data::HostBatch& host) {
  SampleLosses said;
  const std::vector<double> values = pass_of_losses(host, &said);
  if (values.empty()) return {};
  SampleLosses losses = of_samples(std::span(&host, 1), values);
  losses.tasks = losses_.task_sums(host, values);
  losses.predictions = std::move(said.predictions);
  losses.targets = std::move(said.targets);
  losses.answers = std::move(said.answers);
  losses.span_logits = std::move(said.span_logits);
  return losses;
}

}  // namespace megalith::engine

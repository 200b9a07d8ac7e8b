// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <cmath>

#include "engine/losses.h"
#include "engine/pipeline_stage.h"
#include "kernels/elementwise/pointwise.h"
#include "optim/gradient_buckets.h"
#include "optim/sharding.h"
#include "parallel/executor.h"
#include "parallel/tree.h"

namespace megalith::engine {
layers::Partition partition_of(const Settings& settings, int tensor_rank) {
  const bool sequence = settings.sequence_parallel();
  const int ranks = settings.layout.tensor;
  return {settings.split.tensor_shards, ranks, tensor_rank,
          exact_div(settings.token_partials(), sequence ? ranks : 1), sequence};
}

Engine::Engine(const Settings& settings, device::Device& device, const parallel::Mesh& mesh)
    : settings_(settings), device_(device), mesh_(mesh), exec_(device, settings.numerics) {
  MEGA_CHECK_LE(settings.zero, 1);
  const parallel::Layout& layout = mesh.layout();
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    const models::Stage stage =
        models::Stage::part(settings.model, parallel::piece_of(layout, mesh.at().pipeline, chunk),
                            layout.pipeline * layout.chunks);
    pieces_.push_back(std::make_unique<models::Decoder>(settings.model, set_, stage,
                                                        partition_of(settings, mesh.at().tensor)));
  }
  const parallel::TreeAccumulator levels(settings.shards_per_rank());
  const bool spread = settings.zero == 1;
  set_.allocate(device, {.master = settings.masters,
                         .compute = settings.weights,
                         .gradient_levels = levels.num_buffers(),
                         .owner = spread ? mesh.at().data : 0,
                         .owners = spread ? layout.data : 1,
                         .bucket_elements = settings.bucket_elements});
  optimizer_ = std::make_unique<optim::AdamW>(set_, device, settings.adamw);
  parameters::ParameterSet whole;
  const layers::Partition undivided{settings.split.tensor_shards, 1, 0, settings.token_partials(),
                                    false};
  const models::Decoder declarations(settings.model, whole, models::Stage::whole(settings.model),
                                     undivided);
  norm_order_ = std::make_unique<optim::NormOrder>(whole);
}

models::Decoder& Engine::model() {
  MEGA_CHECK_EQ(mesh_.layout().pipeline, 1);
  return *pieces_[0];
}

parameters::Parameter* Engine::tied() const {
  for (const auto& piece : pieces_) {
    if (piece->tied() != nullptr) return piece->tied();
  }
  return nullptr;
}

void Engine::initialise() { set_.initialise(device_, settings_.seed); }

layers::Context context_of(const Settings& settings, const parallel::Mesh& mesh,
                           kernels::Exec& exec, uint64_t step_key, double dropout) {
  return {exec,
          mesh.tensor(),
          settings.split.tensor_shards,
          settings.activations,
          settings.masters,
          step_key,
          dropout,
          settings.sequence_parallel(),
          settings.paper_storage};
}

layers::Context Engine::context(uint64_t step_key, double dropout) {
  return context_of(settings_, mesh_, exec_, step_key, dropout);
}

DeviceBatch::TokenPart Engine::token_part() const {
  if (!settings_.sequence_parallel()) return {};
  return {mesh_.at().tensor, mesh_.layout().tensor};
}

int64_t Engine::max_sequences(const data::HostBatch& batch) const {
  return settings_.ragged ? batch.num_tokens() : batch.num_samples;
}

void Engine::accumulate(int64_t step, std::span<const data::HostBatch> micro_batches,
                        double global_weight, View loss_T, const Inspector* inspector) {
  layers::Context context = this->context(random_key(settings_.seed, static_cast<uint64_t>(step)),
                                          settings_.model.dropout);
  context.inspector = inspector;
  const int shards = settings_.shards_per_rank();
  const parallel::TreeAccumulator tree(shards);
  const size_t per_shard = exact_div(micro_batches.size(), static_cast<size_t>(shards));
  optim::GradientBuckets buckets(exec_, mesh_.data(), set_, tree.additions_after(shards - 1));
  int64_t token = 0;
  for (int shard = 0; shard < shards; ++shard) {
    const int level = tree.buffer_of(shard);
    set_.select_level(level);
    set_.zero_gradient_sums(device_, level);
    const auto mine = micro_batches.subspan(static_cast<size_t>(shard) * per_shard, per_shard);
    int64_t tokens = 0, sequences = 0;
    for (const data::HostBatch& batch : mine) {
      tokens += batch.num_tokens();
      sequences = std::max(sequences, max_sequences(batch));
    }
    PipelineStage::Work task{mine,
                             global_weight,
                             sequences,
                             token_part(),
                             settings_.recompute,
                             static_cast<float>(settings_.z_loss),
                             loss_T.rows(token, tokens),
                             {}};
    const bool is_last = shard + 1 == shards;
    if (is_last) task.completed = [&](const auto& parameters) { buckets.complete(parameters); };
    PipelineStage work(pieces_, context, task);
    const auto schedule =
        parallel::make_schedule(settings_.pipeline_schedule, mesh_.layout().pipeline,
                                static_cast<int>(mine.size()), mesh_.layout().chunks);
    parallel::execute(schedule[static_cast<size_t>(mesh_.at().pipeline)], mesh_.pipeline(), work);
    token += tokens;
    if (is_last) break;  // the buckets do its additions
    for (const auto& [into, from] : tree.additions_after(shard)) {
      const View sum = set_.flat_gradient_sums(into);
      kernels::add(exec_, sum, set_.flat_gradient_sums(from), sum);
    }
  }
  buckets.finish();
}

namespace {

int64_t tokens_of(std::span<const data::HostBatch> micro_batches) {
  int64_t tokens = 0;
  for (const data::HostBatch& batch : micro_batches) tokens += batch.num_tokens();
  return tokens;
}

}  // namespace

double Engine::mean_loss(std::span<const data::HostBatch> micro_batches, ConstView loss_T,
                         double global_weight) {
  std::vector<double> sums;
  if (mesh_.is_last_stage()) sums = sample_sums(micro_batches, read_losses(device_, loss_T));
  sums = mesh_.data().exchange_values(std::span<const double>(sums), "step.loss");
  sums = mesh_.pipeline().exchange_values(std::span<const double>(sums), "step.loss");
  double sum = 0;
  for (const double x : sums) sum += x;
  return sum / global_weight;
}

StepResult Engine::step(int64_t step, double lr, std::span<const data::HostBatch> micro_batches,
                        double global_weight, int64_t skipped) {
  mesh_.world().set_step(step);
  const device::Tensor loss_T =
      exec_.workspace.tensor(settings_.masters, Shape{tokens_of(micro_batches)});
  accumulate(step, micro_batches, global_weight, loss_T, nullptr);
  optim::combine_gradients(exec_, mesh_, set_, tied());
  const optim::GradientNorm norm =
      optim::gradient_norm(exec_, mesh_, set_, tied(), *norm_order_, settings_.clip);
  StepResult result;
  if (!device_.is_trace()) {
    // Up to here nothing that lasts has changed: a step that is not finite ends without a trace.
    device_.wait(device_.copy_to_host(&result.grad_norm, norm.norm.view));
    result.loss = mean_loss(micro_batches, loss_T, global_weight);
    result.applied = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  }
  if (!result.applied) return result;
  optimizer_->update(exec_, step - skipped, lr, norm.factor);
  if (set_.storage().owners > 1) optim::share_weights(exec_, mesh_.data(), set_);
  return result;
}

std::vector<double> Engine::replay(int64_t step, std::span<const data::HostBatch> micro_batches,
                                   double global_weight, const Inspector& inspector) {
  mesh_.world().set_step(step);
  const device::Tensor loss_T =
      exec_.workspace.tensor(settings_.masters, Shape{tokens_of(micro_batches)});
  accumulate(step, micro_batches, global_weight, loss_T, &inspector);
  optim::combine_gradients(exec_, mesh_, set_, tied());
  return mesh_.is_last_stage() ? read_losses(device_, loss_T) : std::vector<double>();
}

std::vector<double> Engine::sample_losses(const data::HostBatch& host) {
  layers::Context context = this->context(0, 0);
  const DeviceBatch batch(device_, host, max_sequences(host), 1, token_part());
  const device::Tensor x =
      context.workspace(context.activation, Shape{batch.batch().own.count, settings_.model.hidden});
  comm::Communicator& pipeline = mesh_.pipeline();
  const int stage = mesh_.at().pipeline, stages = pipeline.size();
  for (const auto& piece : pieces_) {
    if (!piece->stage().has_embedding) {
      pipeline.wait(
          pipeline.start_receive((stage + stages - 1) % stages, x, "validation.activation"));
    }
    piece->hidden(context, batch.batch(), x);
    if (!piece->stage().has_head)
      pipeline.wait(pipeline.start_send((stage + 1) % stages, x, "validation.activation"));
  }
  if (!mesh_.is_last_stage()) return {};
  const device::Tensor loss_T = exec_.workspace.tensor(settings_.masters, Shape{host.num_tokens()});
  pieces_.back()->score(context, batch.batch(), x, loss_T);
  if (device_.is_trace()) return {};
  return sample_sums(std::span(&host, 1), read_losses(device_, loss_T));
}

}  // namespace megalith::engine

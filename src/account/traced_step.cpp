// SPDX-License-Identifier: Apache-2.0
#include "account/traced_step.h"

#include <algorithm>
#include <numeric>

#include "engine/engine.h"
#include "engine/state.h"

namespace megalith::account {

namespace {

/// A sequence a sample.
void set_shape(int64_t samples, int64_t length, data::HostTokens& tokens) {
  tokens.num_samples = samples;
  tokens.sequence_length = length;
  tokens.ids_T.assign(static_cast<size_t>(samples * length), 0);
  tokens.position_T.assign(static_cast<size_t>(samples * length), 0);
  for (int64_t s = 0; s <= samples; ++s)
    tokens.cu_seqlens.push_back(static_cast<int32_t>(s * length));
  tokens.sequence_sample.resize(static_cast<size_t>(samples));
  std::iota(tokens.sequence_sample.begin(), tokens.sequence_sample.end(), int64_t{0});
}

/// A pair of answers a sample, of which as many tokens are learned as may be.
void set_compared(const engine::Settings& settings, data::HostBatch& batch) {
  const int64_t length = batch.sequence_length, most = settings.predicted_per_sample;
  for (int64_t t = 0; t < batch.num_tokens(); ++t)
    batch.targets_T.push_back(most == 0 || t % length < most ? 0 : -1);
  for (int64_t begin = 0; begin < batch.num_tokens(); begin += length)
    for (const int64_t row : {begin, begin + length / 2, begin + length})
      batch.compared_rows.push_back(static_cast<int32_t>(row));
  batch.target_numbers.assign(static_cast<size_t>(2 * batch.num_samples), 0.0f);
  batch.loss_weight_T.assign(static_cast<size_t>(batch.num_samples), 1.0f);
  batch.total_weight = static_cast<double>(batch.num_samples);
}

}  // namespace

data::HostBatch shaped_batch(const engine::Settings& settings, int64_t samples) {
  const int64_t length = settings.loss_length();
  data::HostBatch batch;
  set_shape(samples, length, batch);
  if (settings.model.is_encoder_decoder())
    set_shape(samples, settings.sequence_length(), batch.encoder);
  if (settings.preferences) {
    set_compared(settings, batch);
    return batch;
  }
  // One sequence a sample: of losses of sequences as many as there are samples.
  const layers::LossShape losses = layers::loss_shape(settings.model.head);
  const auto units = static_cast<size_t>(losses.values(batch.num_tokens(), samples));
  const size_t targets = units * static_cast<size_t>(losses.numbers_per_unit);
  if (losses.targets == DType::f32) {
    batch.target_numbers.assign(targets, 0.0f);
  } else {
    batch.targets_T.assign(targets, 0);
  }
  batch.loss_weight_T.assign(units, 1.0f);
  if (const int64_t most = settings.predicted_per_sample; most > 0)
    for (int64_t t = 0; t < batch.num_tokens(); ++t)
      batch.loss_weight_T[static_cast<size_t>(t)] = t % length < most ? 1.0f : 0.0f;
  if (losses.pairs) batch.pair_targets.assign(static_cast<size_t>(samples), 0);
  batch.total_weight = std::accumulate(batch.loss_weight_T.begin(), batch.loss_weight_T.end(), 0.0);
  return batch;
}

std::vector<data::HostBatch> shaped_batches(const engine::Settings& settings) {
  const int64_t per_rank = settings.batch.full / settings.layout.data;
  return std::vector<data::HostBatch>(static_cast<size_t>(per_rank / settings.micro_batch),
                                      shaped_batch(settings, settings.micro_batch));
}

BesideSteps beside_steps(const config::Recipe& recipe, std::vector<int64_t> prompt_lengths) {
  int64_t samples = recipe.train.validate_every > 0 ? recipe.train.validate_samples : 0;
  // What answers are compared with is computed like a validation of all of them.
  if (recipe.compares()) samples = std::max(samples, recipe.train.global_batch);
  return {samples, recipe.checkpoint.async, true, std::move(prompt_lengths),
          recipe.train.sample_tokens};
}

void traced_generation(inference::InferenceEngine& inference, int64_t prompt_length,
                       int64_t new_tokens) {
  const std::vector<int32_t> prompt(static_cast<size_t>(prompt_length), 0);
  auto [cache, ids] = inference.begin(prompt, new_tokens);
  inference.extend(cache, ids);
  // Of new tokens the last one is only drawn; the one before it sees most.
  const int64_t last = std::min(cache.capacity(), cache.length() + new_tokens - 1) - 1;
  if (last < cache.length()) return;
  cache.set_length(last);
  inference.extend(cache, std::span(prompt).first(1));
}

TracedRun::TracedRun(const engine::Settings& settings, device::Device& device,
                     comm::Communicator& world, const BesideSteps& beside)
    : mesh_(world, settings.layout), engine_(settings, device, mesh_), beside_(beside) {
  if (beside.snapshot) {
    const int64_t bytes = engine::state_bytes(engine_);
    if (bytes > 0) snapshot_ = device.arena(device::MemoryClass::snapshot).allocate(bytes);
  }
  engine_.initialise();
}

void TracedRun::step(std::span<const data::HostBatch> micro_batches) {
  engine_.step(1, 1e-3, micro_batches, 1);
}

void TracedRun::between_steps() {
  const engine::Settings& settings = engine_.settings();
  if (beside_.saves) {
    engine::ShardedOptimizerState spread(engine_);
    engine::state_tensors(engine_, spread);
  }
  const int64_t samples = std::min(
      comm::part_of(beside_.validation_samples, mesh_.at().data, settings.layout.data).count,
      settings.micro_batch);
  if (samples > 0) {
    engine_.sample_losses(shaped_batch(settings, samples));
  }
  if (mesh_.at().data != 0) return;
  inference::InferenceEngine inference(engine_.model());
  for (const int64_t length : beside_.prompt_lengths)
    traced_generation(inference, length, beside_.new_tokens);
}

void traced_step(const engine::Settings& settings, device::Device& device,
                 comm::Communicator& world, const BesideSteps& beside) {
  TracedRun run(settings, device, world, beside);
  run.step(shaped_batches(settings));
  run.between_steps();
}

}  // namespace megalith::account

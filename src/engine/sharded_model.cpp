// SPDX-License-Identifier: Apache-2.0
#include "engine/sharded_model.h"

#include "layers/adapter.h"

namespace megalith::engine {

layers::Context context_of(const Settings& settings, const parallel::Mesh& mesh,
                           kernels::Exec& exec, uint64_t step_key, double dropout) {
  return {
      exec,     mesh.tensor(), settings.split.tensor_shards, settings.activations, settings.masters,
      step_key, dropout,       settings.sequence_parallel()};
}

std::unique_ptr<precision::Fp8> make_fp8(const Settings& settings, device::Device& device) {
  if (!settings.fp8) return nullptr;
  precision::Fp8Options options = settings.fp8->options;
  options.may_fall_back = settings.fp8->guard.every > 0;
  return std::make_unique<precision::Fp8>(device, options, settings.fp8_products());
}

models::Stage chunk_at(const Settings& settings, int stage, int chunk) {
  return models::Stage::part(settings.model,
                             parallel::virtual_stage_of(settings.layout, stage, chunk),
                             settings.layout.pipeline * settings.layout.chunks);
}

ShardedModel::ShardedModel(const Settings& settings, device::Device& device,
                           const parallel::Mesh& mesh, const parameters::Storage& storage)
    : settings_(settings),
      device_(device),
      mesh_(mesh),
      exec_(device, settings.numerics),
      set_(settings.declaration_rule()) {
  for (int chunk = 0; chunk < settings.layout.chunks; ++chunk) {
    chunks_.push_back(std::make_unique<models::Decoder>(
        settings.model, set_, chunk_at(settings, mesh.at().pipeline, chunk),
        partition_of(settings, mesh.at().tensor)));
  }
  set_.allocate(device, storage);
}

parameters::Parameter* ShardedModel::tied() const {
  for (const auto& model_chunk : chunks_) {
    if (model_chunk->tied() != nullptr) return model_chunk->tied();
  }
  return nullptr;
}

int64_t ShardedModel::virtual_tokens(const layers::Adapter* adapter) const {
  if (adapter == nullptr) adapter = adapter_;
  return settings_.virtual_tokens.count + (adapter != nullptr ? adapter->virtual_tokens() : 0);
}

int64_t ShardedModel::tokens_in_text(const layers::Adapter* adapter) const {
  if (adapter == nullptr) adapter = adapter_;
  return adapter != nullptr ? adapter->tokens_in_text() : 0;
}

layers::Context ShardedModel::training_context(uint64_t step_key, double dropout) {
  return context_of(settings_, mesh_, exec_, step_key, dropout);
}

layers::Context ShardedModel::inference_context() {
  layers::Context context = training_context(0, 0);
  context.sequence = false;
  context.adapter = adapter_;
  return context;
}

void ShardedModel::through_stages(
    View x_TH, std::string_view label,
    FunctionRef<void(const models::Decoder& model_chunk, size_t chunk)> pass) {
  set_.derive(exec_);
  comm::Communicator& pipeline = mesh_.pipeline();
  const int stage = mesh_.at().pipeline, stages = pipeline.size();
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const models::Decoder& model_chunk = *chunks_[chunk];
    if (!model_chunk.stage().has_embedding)
      pipeline.wait(pipeline.start_receive((stage + stages - 1) % stages, x_TH, label));
    pipeline.heartbeat();  // ranks that have no part in this may wait for it
    pass(model_chunk, chunk);
    if (!model_chunk.stage().has_head)
      pipeline.wait(pipeline.start_send((stage + 1) % stages, x_TH, label));
  }
}

std::vector<double> ShardedModel::to_host(ConstView values) const {
  if (device_.is_trace()) return {};
  std::vector<float> host(static_cast<size_t>(values.num_elements()));
  device_.wait(device_.copy_to_host(host.data(), values));
  return {host.begin(), host.end()};
}

std::vector<double> ShardedModel::from_last_stage(std::span<const double> values,
                                                  std::string_view label) {
  if (mesh_.pipeline().size() == 1) return {values.begin(), values.end()};
  return mesh_.pipeline().exchange_values(
      mesh_.is_last_stage() ? values : std::span<const double>(), label);
}

}  // namespace megalith::engine

// SPDX-License-Identifier: Apache-2.0
// One rank's part of a model on a mesh of ranks: its model chunks, their parameters and where they
// run. The only owner of a model: training, validation, samples, scoring and generation run through
// it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "engine/settings.h"
#include "models/decoder.h"

namespace megalith::engine {

/// Which part of the model a chunk of a stage is.
models::Stage chunk_at(const Settings& settings, int stage, int chunk);

class ShardedModel {
 public:
  /// Declares this rank's parameters and takes memory for them as `storage` says. Device and mesh
  /// must outlive it.
  ShardedModel(const Settings& settings, device::Device& device, const parallel::Mesh& mesh,
               const parameters::Storage& storage);

  const Settings& settings() const { return settings_; }
  const models::ModelSpec& spec() const { return settings_.model; }
  const parallel::Mesh& mesh() const { return mesh_; }
  device::Device& device() const { return device_; }
  kernels::Exec& exec() { return exec_; }
  parameters::ParameterSet& parameters() { return set_; }
  const parameters::ParameterSet& parameters() const { return set_; }
  /// This stage's part of the stack, by chunk.
  std::span<const std::unique_ptr<models::Decoder>> chunks() const { return chunks_; }
  /// Of the last stage: the chunk with the head.
  const models::Decoder& head() const { return *chunks_.back(); }
  /// The tied table of this stage; null when not tied or on a middle stage.
  parameters::Parameter* tied() const;

  /// Of all rows that inference reads and that name none themselves; null: none. Must outlive its
  /// use here.
  void set_adapter(const layers::Adapter* adapter) { adapter_ = adapter; }
  /// Tokens vocab, vocab + 1, ..., so many, that stand before a text which is read: that train, or
  /// those of `adapter`; null: of the model's.
  int64_t virtual_tokens(const layers::Adapter* adapter = nullptr) const;
  /// So many of these that stand in a text instead, which has their ids.
  int64_t tokens_in_text(const layers::Adapter* adapter = nullptr) const;

  /// What layers are given in training: with sequence parallelism where the layout has it.
  layers::Context training_context(uint64_t step_key, double dropout);
  /// The same for reading text, whose passes have any number of tokens: whole on every tensor rank.
  layers::Context inference_context();

  /// `pass(model_chunk, chunk)` for each chunk of this stage in the order of the stack, x_TH coming
  /// in from the stage before and going out to the next: on return, on the last stage, the output
  /// of the last block. A heartbeat goes before each. Collective over the pipeline; `label` names
  /// the transfers.
  void through_stages(View x_TH, std::string_view label,
                      FunctionRef<void(const models::Decoder& model_chunk, size_t chunk)> pass);
  /// Results in f32, waited for; none on the trace kind.
  std::vector<double> to_host(ConstView values) const;
  /// The numbers that the last stage gives, on all its pipeline ranks. Collective over them.
  std::vector<double> from_last_stage(std::span<const double> values, std::string_view label);

 private:
  Settings settings_;
  device::Device& device_;
  const parallel::Mesh& mesh_;
  kernels::Exec exec_;
  parameters::ParameterSet set_;
  std::vector<std::unique_ptr<models::Decoder>> chunks_;
  const layers::Adapter* adapter_ = nullptr;
};

/// The scales of a run's products in 8 bits; null where none is.
std::unique_ptr<precision::Fp8> make_fp8(const Settings& settings, device::Device& device);

/// What layers are given on a rank in training, products in 8 bits aside.
layers::Context context_of(const Settings& settings, const parallel::Mesh& mesh,
                           kernels::Exec& exec, uint64_t step_key, double dropout);

}  // namespace megalith::engine

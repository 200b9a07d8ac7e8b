// SPDX-License-Identifier: Apache-2.0
#include "inference/inference_model.h"

#include "comm/backends.h"

namespace megalith::inference {
namespace {

engine::Settings settings_of(const models::ModelSpec& spec,
                             const InferenceModel::Options& options) {
  engine::Settings settings;
  settings.model = spec;
  settings.layout = options.layout;
  settings.split.tensor_shards = options.tensor_shards;
  settings.numerics = options.numerics;
  settings.formats = options.formats;
  settings.cache = options.cache;
  settings.weights = settings.activations = options.compute;
  if (options.layout.chunks > 1) settings.pipeline_schedule = parallel::ScheduleKind::interleaved;
  return settings;
}

const InferenceModel::Options& checked(const models::ModelSpec& spec,
                                       const InferenceModel::Options& options) {
  InferenceModel::check(spec, options, "model");
  return options;
}

comm::Communicator& connected(comm::Communicator& world, device::Device& device) {
  world.set_device(&device);
  return world;
}

}  // namespace

void InferenceModel::check(const models::ModelSpec& spec, const Options& options,
                           const std::string& where) {
  spec.check(where);
  if (options.layout.data != 1)
    throw UserError("{}: parallel.data {}: data ranks are for training; set 1", where,
                    options.layout.data);
  engine::check(settings_of(spec, options), where);
}

InferenceModel::InferenceModel(const models::ModelSpec& spec, device::Device& device,
                               comm::Communicator& world, const Options& options)
    : mesh_(connected(world, device), checked(spec, options).layout),
      model_(settings_of(spec, options), device, mesh_,
             {.master = options.compute,
              .compute = options.compute,
              .training = false,
              .gradient_levels = 0}),
      engine_(model_) {}

InferenceModel::InferenceModel(const models::ModelSpec& spec, device::Device& device,
                               const Options& options)
    : InferenceModel(spec, device, comm::make_self_communicator(device), options) {}

}  // namespace megalith::inference

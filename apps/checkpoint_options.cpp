// SPDX-License-Identifier: Apache-2.0
#include "apps/checkpoint_options.h"

#include "apps/cpu_target.h"
#include "base/thread_pool.h"

namespace megalith::apps {

void CheckpointOptions::declare(CLI::App& command) {
  command.add_option("--checkpoint", path, "run folder, checkpoint folder or Hugging Face folder")
      ->required();
  command.add_option("--dtype", dtype, "arithmetic's storage, whatever the checkpoint's")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command
      .add_option("--numerics", numerics,
                  "exact: the same on every machine; fast: what this one does fastest")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command.add_option("--threads", threads, "0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

namespace {

kernels::Numerics numerics_of(const CheckpointOptions& options) {
  return options.numerics == "fast" ? kernels::Numerics::fast : kernels::Numerics::exact;
}

}  // namespace

LoadedModel::LoadedModel(const CheckpointOptions& options)
    : source(store::ModelSource::open(options.path)),
      device(device::make_cpu_device(cpu_target(
          options.threads > 0 ? options.threads : available_cores(), numerics_of(options)))) {
  engine::InferenceModel::Options model_options;
  model_options.numerics = numerics_of(options);
  model_options.compute = options.dtype == "bf16" ? DType::bf16 : DType::f32;
  model_options.tensor_shards = source.tensor_shards();
  model = std::make_unique<engine::InferenceModel>(source.spec(), *device, model_options);
  source.fill(model->parameters(), *device);
}

}  // namespace megalith::apps

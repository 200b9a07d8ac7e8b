// SPDX-License-Identifier: Apache-2.0
// The checkpoint argument that several commands take, and the model made from it.
#pragma once

#include <memory>
#include <string>

#include "apps/command.h"
#include "engine/inference_model.h"
#include "store/model_source.h"

namespace megalith::apps {

struct CheckpointOptions {
  std::string path;
  std::string dtype = "f32";
  std::string numerics = "exact";
  int threads = 0;
  void declare(CLI::App& command);
};

/// A model with its weights, on a device of its own.
struct LoadedModel {
  explicit LoadedModel(const CheckpointOptions& options);
  store::ModelSource source;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<engine::InferenceModel> model;
};

}  // namespace megalith::apps

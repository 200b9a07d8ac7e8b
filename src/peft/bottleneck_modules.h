// SPDX-License-Identifier: Apache-2.0
// The bottleneck adapters that a recipe asks for, in a model of a family (bottlenecks/), and the
// tuned ones as AdapterHub's `adapters` saves them: adapter_config.json and adapter.safetensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "config/tune_section.h"
#include "spec/model_spec.h"

namespace megalith::tune {

/// The product that one stands behind.
struct BottleneckModule {
  std::string weight;  // ours
  std::string name;    // of the model's own folder: "model.layers.0.mlp.down_proj.weight"
  bool of_attention = false;
};
struct BottleneckModules {
  std::vector<BottleneckModule> modules;
  int64_t hidden = 0;
  int64_t parameters = 0;
};
/// UserError unless the model is decoder-only.
BottleneckModules bottleneck_modules(const config::TuneSection& tune, const models::ModelSpec& spec,
                                     int tensor_shards);

/// Writes the folder's files, durably. The values are those of the checkpoint, in f32.
/// IntegrityError naming the tensor that it lacks; SystemError when the folder cannot be written.
void write_bottleneck_folder(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                             const BottleneckModules& modules, const models::ModelSpec& spec,
                             const config::TuneSection& tune);

}  // namespace megalith::tune

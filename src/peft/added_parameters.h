// SPDX-License-Identifier: Apache-2.0
// What a method of tuning trains beside a frozen model, from the recipe to PEFT's folder, or
// AdapterHub's.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/reader.h"
#include "config/tune_section.h"
#include "engine/settings.h"
#include "spec/model_spec.h"

namespace megalith::tune {

struct AddedParameters {
  std::string description;                                 // how many, of what
  std::function<void(engine::Settings& settings)> add_to;  // a run's
  /// Writes the folder's files, durably, from a checkpoint, in f32; of several tasks a folder below
  /// it for each. IntegrityError naming the tensor that the checkpoint lacks; SystemError when the
  /// folder cannot be written.
  std::function<void(const std::filesystem::path& folder, const checkpoint::Reader& reader)> write;
};

/// Nothing for methods that train the weights. UserError when tune.targets has a name that no
/// module of the model has, or the method is not built for such a model.
std::optional<AddedParameters> added_parameters(const config::TuneSection& tune,
                                                const models::ModelSpec& spec, int tensor_shards);

}  // namespace megalith::tune

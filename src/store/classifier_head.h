// SPDX-License-Identifier: Apache-2.0
// Adapters that bring the head of a classifier: modules that PEFT's modules_to_save names, trained
// whole beside factors or vectors of a body that stayed as it was.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "checkpoint/safetensors.h"
#include "models/foreign_map.h"
#include "store/model_source.h"

namespace megalith::store {

/// Whether the adapter of a folder brings a head, which was trained as wide as it is.
bool brings_head(const std::filesystem::path& folder);

/// The model that the adapter of a folder is for: `base` itself, or where the folder brings a head,
/// the classifier of `base`'s body with that head. What the classes are is said by the config.json
/// beside the adapter, and never guessed: UserError when there is none, or it is of another model,
/// or of another task than the adapter's task_type.
/// What the folder has not of the head is `base`'s own; IntegrityError when that has none either,
/// or a tensor has another shape.
ModelSource with_head_of(ModelSource base, const std::filesystem::path& folder);

/// A tensor of a classifier's head as such a folder has it, in f32 and our layout. IntegrityError
/// when it is missing or misshapen.
std::vector<std::byte> head_values(const checkpoint::SafetensorsFile& file,
                                   const models::TensorMap& map);

}  // namespace megalith::store

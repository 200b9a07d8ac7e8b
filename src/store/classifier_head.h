// SPDX-License-Identifier: Apache-2.0
// Adapters with a classifier's head: PEFT's modules_to_save, trained whole beside the factors or
// vectors of a frozen body.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "checkpoint/safetensors.h"
#include "models/foreign_map.h"
#include "store/model_source.h"

namespace megalith::store {

/// Whether the adapter of a folder has a head.
bool brings_head(const std::filesystem::path& folder);

/// The model that the adapter of a folder is for: `base` itself or, if the folder has a head, the
/// classifier with that head on `base`'s body. The classes are those of the config.json beside the
/// adapter: UserError if there is none, or if it is of another model or of another task than the
/// adapter's task_type. Tensors of the head that the folder lacks are `base`'s own; IntegrityError
/// if `base` lacks them too, or a tensor has another shape.
ModelSource with_head_of(ModelSource base, const std::filesystem::path& folder);

/// A tensor of the head in such a folder, in f32 and our layout. IntegrityError if it is missing,
/// has another shape or is not of a floating type.
std::vector<std::byte> head_values(const checkpoint::SafetensorsFile& file,
                                   const models::TensorMap& map);

}  // namespace megalith::store

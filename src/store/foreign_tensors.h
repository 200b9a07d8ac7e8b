// SPDX-License-Identifier: Apache-2.0
// Tensors of another program's format that a conversion writes, out of ours.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/foreign_map.h"
#include "store/model_source.h"

namespace megalith::store {

/// A foreign tensor and the moves that fill it, in maps of ours.
struct ForeignTensor {
  std::string name;
  Shape shape;
  std::vector<std::pair<size_t, size_t>> moves;  // number of the map, of the move in it
};
/// In the order of the maps; a foreign tensor is filled by one of ours.
std::vector<ForeignTensor> by_foreign_name(const std::vector<models::TensorMap>& maps);

/// A whole tensor of ours in another type.
std::vector<std::byte> read_as(const ModelSource& source, const StoredTensor& tensor, DType dtype);

}  // namespace megalith::store

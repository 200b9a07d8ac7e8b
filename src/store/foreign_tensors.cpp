// SPDX-License-Identifier: Apache-2.0
#include "store/foreign_tensors.h"

#include <algorithm>

namespace megalith::store {

std::vector<ForeignTensor> by_foreign_name(const std::vector<models::TensorMap>& maps) {
  std::vector<ForeignTensor> tensors;
  for (size_t m = 0; m < maps.size(); ++m) {
    const size_t first = tensors.size();
    for (size_t i = 0; i < maps[m].moves.size(); ++i) {
      const models::RowMove& move = maps[m].moves[i];
      const auto found =
          std::find_if(tensors.begin() + static_cast<std::ptrdiff_t>(first), tensors.end(),
                       [&](const ForeignTensor& tensor) { return tensor.name == move.name; });
      if (found != tensors.end()) {
        found->moves.emplace_back(m, i);
      } else {
        tensors.push_back({move.name, move.shape, {{m, i}}});
      }
    }
  }
  return tensors;
}

std::vector<std::byte> read_as(const ModelSource& source, const StoredTensor& tensor, DType dtype) {
  return convert_elements(tensor.name, source.weights().read(tensor), tensor.dtype, dtype);
}

}  // namespace megalith::store

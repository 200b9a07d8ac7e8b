// SPDX-License-Identifier: Apache-2.0
// Our parameters against another program's tensors, both ways, bit for bit: a family's table
// (families/foreign_table.h) worked out for one model.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "families/foreign_table.h"
#include "spec/model_spec.h"
#include "tensor/shape.h"

namespace megalith::models {

/// Rows [first, first + rows) of the foreign tensor (seen as [out, in]) are, in blocks of `block`
/// rows, those of ours from `ours` on, a block every `period` rows.
struct RowMove {
  std::string name;  // of the foreign tensor
  Shape shape;       // of it
  bool transposed = false;
  int64_t first = 0;
  int64_t rows = 0;
  int64_t ours = 0;
  int64_t block = 0;
  int64_t period = 0;
};
struct TensorMap {
  std::string name;
  Shape shape;
  std::vector<RowMove> moves;
  bool is_cut_by_columns = false;  // over tensor ranks, as the weights of row products are
};

/// Name and whole shape of every parameter, in the order of their declaration: what a decoder of
/// this model declares; its padding knows the canonical split.
struct DeclaredTensor {
  std::string name;
  Shape shape;
  bool may_be_in_blocks = false;   // parameters::Declaration
  bool is_layer_product = false;   // likewise
  bool is_cut_by_columns = false;  // over tensor ranks, as the weights of row products are
};
std::vector<DeclaredTensor> declared_tensors(const ModelSpec& model, int tensor_shards = 1);

/// Every parameter of the model. UserError naming one that the family has no tensor for.
std::vector<TensorMap> tensor_maps(const ModelSpec& model, const ForeignTable& table,
                                   int tensor_shards = 1);

/// Moves the rows of elements of `element_bytes` (1, 2, 4 or 8) bytes into `ours` [map.shape], or
/// out of it; other rows of the destination are left alone.
void to_ours(const TensorMap& map, const RowMove& move, int64_t element_bytes, const void* foreign,
             void* ours);
void from_ours(const TensorMap& map, const RowMove& move, int64_t element_bytes, const void* ours,
               void* foreign);

}  // namespace megalith::models

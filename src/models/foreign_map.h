// SPDX-License-Identifier: Apache-2.0
// Our parameters against another program's tensors, both ways, bit for bit. A family writes a table
// of rows: one parameter of ours and the foreign tensors whose rows it is made of. Several foreign
// tensors may make one of ours (q, k, v into the fused projection), and one foreign tensor may
// serve several rows of the table's row (GPT-2's c_attn holds q, k and v one after the other).
// Which row goes where follows from the model's description:
//   rows                the same rows; ours may have more, of zeros (a padded vocabulary)
//   query, key, value   ours go group by group (layers/attention.h), theirs part by part
//   gate, up            ours alternate (layers/mlp.h), theirs are one after the other
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_spec.h"
#include "tensor/shape.h"

namespace megalith::models {

enum class Part : uint8_t { none, rows, query, key, value, gate, up };

struct ForeignPiece {
  std::string_view name;  // '*' is the number of the layer
  Part part = Part::none;
};
struct ForeignRow {
  std::string_view ours;  // '*' is the number of the layer
  ForeignPiece pieces[3];
  bool transposed = false;  // foreign matrices are [in, out]
};
/// Another name that some files of a family have for a tensor of its table.
struct ForeignAlias {
  std::string_view name, other;
};
/// All rows of a family, its buffers that are no parameters, the prefix that some of its files
/// leave out, and other names.
struct ForeignTable {
  std::span<const ForeignRow> rows;
  std::span<const std::string_view> buffers;
  std::string_view prefix;
  std::span<const ForeignAlias> aliases = {};
};

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
};

/// Name and whole shape of every parameter, in the order of their declaration: what a decoder of
/// this model declares; its padding knows the canonical split.
struct DeclaredTensor {
  std::string name;
  Shape shape;
};
std::vector<DeclaredTensor> declared_tensors(const ModelSpec& model, int tensor_shards = 1);

/// Every parameter of the model. UserError naming one that the family has no tensor for.
std::vector<TensorMap> tensor_maps(const ModelSpec& model, const ForeignTable& table,
                                   int tensor_shards = 1);

/// The names under which a file may have the tensor that the table calls `name`, its own first.
std::vector<std::string> file_names(const ForeignTable& table, const std::string& name);

/// The table's name of the output projection, which a tied model may be stored with.
std::string_view head_name(const ForeignTable& table);

/// Whether it is one of the table's buffers, with or without prefix.
bool is_buffer(const ForeignTable& table, std::string_view foreign_name);

/// Moves the rows of elements of `element_bytes` (1, 2, 4 or 8) bytes into `ours` [map.shape], or
/// out of it; other rows of the destination are left alone.
void to_ours(const TensorMap& map, const RowMove& move, int64_t element_bytes, const void* foreign,
             void* ours);
void from_ours(const TensorMap& map, const RowMove& move, int64_t element_bytes, const void* ours,
               void* foreign);

}  // namespace megalith::models

// SPDX-License-Identifier: Apache-2.0
#include "models/foreign_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "models/decoder.h"

namespace megalith::models {
namespace {

/// Side of the square that is transposed at once: two of them fit the first-level cache.
constexpr int64_t kTile = 32;

std::string with_number(std::string_view pattern, int64_t number) {
  std::string name(pattern);
  if (const size_t star = name.find('*'); star != std::string::npos)
    name.replace(star, 1, std::to_string(number));
  return name;
}

/// Where the rows of a part lie among ours.
RowMove place_of(Part part, const ModelSpec& model, int64_t layer, int64_t own_rows) {
  RowMove move;
  if (part == Part::rows) {
    move.rows = own_rows;
    move.block = move.period = std::max<int64_t>(own_rows, 1);
    return move;
  }
  if (part == Part::gate || part == Part::up) {
    move.rows = model.layer(layer).mlp.ffn;
    move.ours = part == Part::gate ? 0 : 1;
    move.block = 1;
    move.period = 2;
    return move;
  }
  if (part == Part::cross_key || part == Part::cross_value) {
    const layers::AttentionSpec& cross = model.layer(layer).cross.value();
    move.rows = cross.kv_heads * cross.head_dim;
    move.block = cross.head_dim;
    move.period = 2 * cross.head_dim;
    if (part == Part::cross_value) move.ours = cross.head_dim;
    return move;
  }
  const layers::AttentionSpec& a = model.layer(layer).attention;
  const int64_t queries = a.heads / a.kv_heads * a.head_dim;  // of a group
  move.period = queries + 2 * a.head_dim;
  move.block = part == Part::query ? queries : a.head_dim;
  move.rows = a.kv_heads * move.block;
  if (part == Part::key) move.ours = queries;
  if (part == Part::value) move.ours = queries + a.head_dim;
  return move;
}

/// Rows that count: without the padding of a vocabulary.
int64_t unpadded_rows(const ModelSpec& model, const DeclaredTensor& tensor) {
  const bool is_vocabulary = tensor.name == "embedding.weight" || tensor.name == "head.weight" ||
                             tensor.name == "head.bias";
  return is_vocabulary ? model.vocab : tensor.shape[0];
}

/// `number`: of the tensor's layer in its stack.
TensorMap map_of(const ModelSpec& model, const DeclaredTensor& tensor, const ForeignRow& row,
                 int64_t number, std::string_view prefix) {
  const int64_t layer =
      tensor.name.starts_with("encoder.") ? number : number + model.encoder_layers;
  TensorMap map{tensor.name, tensor.shape, {}, tensor.is_cut_by_columns};
  for (const ForeignPiece& piece : row.pieces) {
    if (piece.part == Part::none) break;
    RowMove move = place_of(piece.part, model, layer, unpadded_rows(model, tensor));
    const bool behind = piece.name.starts_with('.');
    move.name =
        std::string(behind ? prefix : "") + with_number(piece.name.substr(behind ? 1 : 0), number);
    const bool is_matrix = tensor.shape.num_dims() > 1;
    move.transposed = row.transposed && is_matrix;
    for (const RowMove& before : map.moves) {
      if (before.name == move.name) move.first += before.rows;
    }
    map.moves.push_back(std::move(move));
  }
  for (RowMove& move : map.moves) {
    int64_t rows = 0;
    for (const RowMove& each : map.moves) rows += each.name == move.name ? each.rows : 0;
    if (tensor.shape.num_dims() == 1) {
      move.shape = Shape{rows};
    } else {
      move.shape = move.transposed ? Shape{tensor.shape[1], rows} : Shape{rows, tensor.shape[1]};
    }
  }
  return map;
}

int64_t columns_of(const TensorMap& map) {
  return map.shape.num_dims() > 1 ? map.shape.num_elements() / map.shape[0] : 1;
}

int64_t our_row(const RowMove& move, int64_t row) {
  return move.ours + row / move.block * move.period + row % move.block;
}

/// Between ours [rows, columns] and foreign [columns, foreign rows], a square at a time.
template <typename Word>
void transpose(const TensorMap& map, const RowMove& move, const void* from, void* to,
               bool into_ours) {
  const int64_t columns = columns_of(map), stride = move.shape[1];
  const auto* const source = static_cast<const Word*>(from);
  auto* const target = static_cast<Word*>(to);
  for (int64_t row_0 = 0; row_0 < move.rows; row_0 += kTile) {
    for (int64_t column_0 = 0; column_0 < columns; column_0 += kTile) {
      const int64_t column_end = std::min(column_0 + kTile, columns);
      for (int64_t row = row_0; row < std::min(row_0 + kTile, move.rows); ++row) {
        const int64_t ours = our_row(move, row) * columns, theirs = move.first + row;
        for (int64_t column = column_0; column < column_end; ++column) {
          const int64_t a = ours + column, b = column * stride + theirs;
          target[into_ours ? a : b] = source[into_ours ? b : a];
        }
      }
    }
  }
}

void move_rows(const TensorMap& map, const RowMove& move, int64_t element_bytes, const void* from,
               void* to, bool into_ours) {
  if (move.transposed) {
    switch (element_bytes) {
      case 1:
        return transpose<uint8_t>(map, move, from, to, into_ours);
      case 2:
        return transpose<uint16_t>(map, move, from, to, into_ours);
      case 4:
        return transpose<uint32_t>(map, move, from, to, into_ours);
      case 8:
        return transpose<uint64_t>(map, move, from, to, into_ours);
      default:
        MEGA_CHECK(false, "elements of {} bytes", element_bytes);
    }
  }
  const int64_t row_bytes = columns_of(map) * element_bytes;
  for (int64_t row = 0; row < move.rows; row += move.block) {
    const int64_t bytes = std::min(move.block, move.rows - row) * row_bytes;
    const int64_t ours = our_row(move, row) * row_bytes, theirs = (move.first + row) * row_bytes;
    std::memcpy(static_cast<char*>(to) + (into_ours ? ours : theirs),
                static_cast<const char*>(from) + (into_ours ? theirs : ours),
                static_cast<size_t>(bytes));
  }
}

}  // namespace

std::vector<DeclaredTensor> declared_tensors(const ModelSpec& model, int tensor_shards) {
  parameters::ParameterSet set;
  const Decoder declarations(model, set, Stage::whole(model),
                             layers::Partition{.tensor_shards = tensor_shards});
  std::vector<DeclaredTensor> tensors;
  for (const parameters::Parameter& parameter : set.all())
    tensors.push_back(
        {parameter.name(), parameter.shape(), parameter.declaration().may_be_in_blocks,
         parameter.declaration().is_layer_product, parameter.declaration().shard.dim == 1});
  return tensors;
}

std::vector<TensorMap> tensor_maps(const ModelSpec& model, const ForeignTable& table,
                                   int tensor_shards) {
  std::vector<TensorMap> maps;
  for (const DeclaredTensor& tensor : declared_tensors(model, tensor_shards)) {
    const size_t before = maps.size();
    for (const ForeignRow& row : table.rows) {
      const auto number = layer_of(row.ours, tensor.name);
      if (!number || (row.head && *row.head != model.head.kind) ||
          (row.tied && *row.tied != model.head.tied))
        continue;
      maps.push_back(map_of(model, tensor, row, *number, table.prefix));
      break;
    }
    if (maps.size() == before) {
      throw UserError("the {} format has no tensor for {}; the model cannot be stored in it",
                      model.family, tensor.name);
    }
  }
  return maps;
}

void to_ours(const TensorMap& map, const RowMove& move, int64_t element_bytes, const void* foreign,
             void* ours) {
  move_rows(map, move, element_bytes, foreign, ours, true);
}

void from_ours(const TensorMap& map, const RowMove& move, int64_t element_bytes, const void* ours,
               void* foreign) {
  move_rows(map, move, element_bytes, ours, foreign, false);
}

}  // namespace megalith::models

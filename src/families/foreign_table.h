// SPDX-License-Identifier: Apache-2.0
// Our parameters and another program's tensors, as a table: a row has one parameter of ours and the
// foreign tensors whose rows it is made of. Several foreign tensors may make one of ours (q, k, v
// into the fused projection), and one foreign tensor may serve several rows of the table (GPT-2's
// c_attn holds q, k and v one after the other). models/foreign_map.h works it out for a model.
//   rows                the same rows; ours may have more, of zeros (a padded vocabulary)
//   query, key, value   ours go group by group (layers/attention.h), theirs part by part
//   gate, up            ours alternate (layers/mlp.h), theirs are one after the other
//   cross_key, cross_value   ours alternate head by head (layers/cross_attention.h)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/layer_spec.h"

namespace megalith::models {

enum class Part : uint8_t { none, rows, query, key, value, gate, up, cross_key, cross_value };

struct ForeignPiece {
  // '*' is the number of the layer; one that begins with '.' stands behind the table's prefix.
  std::string_view name;
  Part part = Part::none;
};
struct ForeignRow {
  std::string_view ours;  // '*' is the number of the layer
  ForeignPiece pieces[3];
  bool transposed = false;                    // foreign matrices are [in, out]
  std::optional<layers::HeadKind> head = {};  // of models with this head alone
  std::optional<bool> tied = {};              // of models with a tied, or an untied head alone
};
/// Another name that some files of a family have for a tensor of its table; with '*' in front, for
/// the end of names.
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
  /// Tensors of the table that files hold a second time, under the other name.
  std::span<const ForeignAlias> copies = {};
  /// Tensors of the table that files may hold a second time, under the other name: equal ones.
  std::span<const ForeignAlias> twins = {};
};

/// The number that '*' of the pattern stands for in the name; -1 for a pattern without one. Nothing
/// when the name is not of the pattern.
std::optional<int64_t> layer_of(std::string_view pattern, std::string_view name);

/// The names under which a file may have the tensor that the table calls `name`, its own first.
std::vector<std::string> file_names(const ForeignTable& table, const std::string& name);

/// The table's name of the output projection, which a tied model may be stored with.
std::string_view head_name(const ForeignTable& table);

/// Whether it is one of the table's buffers, with or without prefix.
bool is_buffer(const ForeignTable& table, std::string_view foreign_name);

}  // namespace megalith::models

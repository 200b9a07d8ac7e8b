// SPDX-License-Identifier: Apache-2.0
// Rows of a table by integer: token embedding (with the vocabulary cut over ranks) and learned
// positions. Tables and activations are f32, bf16 or f16, gradients f32; f64 goes to the reference.
// Local; results are ready as of a later ticket of the device. A vocabulary-parallel lookup becomes
// whole by a sum over the group, which is exact: all addends but one are +0.
#pragma once

#include "kernels/exec.h"
#include "tensor/weight.h"

namespace megalith::kernels {

/// y[t] = +0 + table[ids[t] - vocab_begin] if this rank has that row, else +0. Overwrites y. The
/// table may be in blocks, which widen to f32 (tensor/blocks.h).
struct EmbeddingLookup {
  ConstView ids_T;  // i32
  Weight table_VH;
  int64_t vocab_begin = 0;
  View y_TH;
};
void embedding_lookup(Exec& exec, const EmbeddingLookup& arguments);

/// y[t] += table[position[t]], rounded once. Every position must be a row of the table.
struct EmbeddingAddPositions {
  ConstView position_T;  // i32
  ConstView table_SH;
  View y_TH;  // in and out
};
void embedding_add_positions(Exec& exec, const EmbeddingAddPositions& arguments);

/// y[t] += table[ids[t] - first], rounded once, of the tokens whose ids are rows of the table; the
/// others are left alone.
struct EmbeddingAddRows {
  ConstView ids_T;  // i32
  ConstView table_RH;
  int64_t first = 0;
  View y_TH;  // in and out
};
void embedding_add_rows(Exec& exec, const EmbeddingAddRows& arguments);

/// dtable[ids[t] - vocab_begin] += dy[t] for the rows that this rank has: one chain per element in
/// increasing t that continues from the stored value. For positions: ids_T = positions,
/// vocab_begin = 0.
struct EmbeddingBackward {
  ConstView dy_TH;
  ConstView ids_T;  // i32
  int64_t vocab_begin = 0;
  View dtable_VH;  // f32, accumulated
};
void embedding_backward(Exec& exec, const EmbeddingBackward& arguments);

}  // namespace megalith::kernels

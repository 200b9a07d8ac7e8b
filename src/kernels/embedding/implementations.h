// SPDX-License-Identifier: Apache-2.0
// The implementations behind embedding.cpp's lists. Arguments have been checked, positions too;
// `simd` takes f32, bf16 and f16.
#pragma once

#include "kernels/embedding/embedding.h"

namespace megalith::kernels {

void embedding_lookup_simd(Exec& exec, const EmbeddingLookup& arguments);
void embedding_lookup_blocks(Exec& exec, const EmbeddingLookup& arguments);
void embedding_lookup_reference(Exec& exec, const EmbeddingLookup& arguments);
void embedding_add_positions_simd(Exec& exec, const EmbeddingAddPositions& arguments);
void embedding_add_positions_reference(Exec& exec, const EmbeddingAddPositions& arguments);
void embedding_add_rows_simd(Exec& exec, const EmbeddingAddRows& arguments);
void embedding_add_rows_reference(Exec& exec, const EmbeddingAddRows& arguments);
void embedding_backward_simd(Exec& exec, const EmbeddingBackward& arguments);
void embedding_backward_reference(Exec& exec, const EmbeddingBackward& arguments);

/// InternalError unless each position has a row in the table.
void check_positions(const EmbeddingAddPositions& arguments);

/// The table's row for an id, or -1 when it is not here.
inline int64_t local_row(int32_t id, int64_t vocab_begin, int64_t rows) {
  const int64_t row = id - vocab_begin;
  return row >= 0 && row < rows ? row : -1;
}

}  // namespace megalith::kernels

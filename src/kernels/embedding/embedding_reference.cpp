// SPDX-License-Identifier: Apache-2.0
// The specification: row by row in double.
#include "kernels/elementary/reference_access.h"
#include "kernels/embedding/implementations.h"
#include "tensor/blocks.h"

namespace megalith::kernels {

void embedding_lookup_reference(Exec&, const EmbeddingLookup& a) {
  const Weight& table = a.table_VH;
  const auto at = [&](int64_t row, int64_t column) {
    if (is_plain(table.format)) return read_double(table, row, column);
    return static_cast<double>(tile_value(table, row, column));
  };
  for (int64_t t = 0; t < a.y_TH.size(0); ++t) {
    const int64_t row = local_row(a.ids_T.as<int32_t>()[t], a.vocab_begin, table.shape[0]);
    for (int64_t c = 0; c < a.y_TH.size(1); ++c) {
      write_double(a.y_TH, t, c, row < 0 ? 0.0 : 0.0 + at(row, c));
    }
  }
}

void embedding_add_positions_reference(Exec& exec, const EmbeddingAddPositions& a) {
  check_positions(a);
  embedding_add_rows_reference(exec, {a.position_T, a.table_SH, 0, a.y_TH});
}

void embedding_add_rows_reference(Exec&, const EmbeddingAddRows& a) {
  for (int64_t t = 0; t < a.y_TH.size(0); ++t) {
    const int64_t row = local_row(a.ids_T.as<int32_t>()[t], a.first, a.table_RH.size(0));
    if (row < 0) continue;
    for (int64_t c = 0; c < a.y_TH.size(1); ++c) {
      write_double(a.y_TH, t, c, read_double(a.y_TH, t, c) + read_double(a.table_RH, row, c));
    }
  }
}

void embedding_backward_reference(Exec&, const EmbeddingBackward& a) {
  for (int64_t t = 0; t < a.dy_TH.size(0); ++t) {
    const int64_t row = local_row(a.ids_T.as<int32_t>()[t], a.vocab_begin, a.dtable_VH.size(0));
    if (row < 0) continue;
    for (int64_t c = 0; c < a.dy_TH.size(1); ++c) {
      write_double(a.dtable_VH, row, c,
                   read_double(a.dtable_VH, row, c) + read_double(a.dy_TH, t, c));
    }
  }
}

}  // namespace megalith::kernels

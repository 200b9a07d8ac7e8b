// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/embedding/implementations.h"
#include "tensor/blocks.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<EmbeddingLookup> kLookup[] = {
    {"simd",
     [](const Exec&, const EmbeddingLookup& a) {
       if (!is_plain(a.table_VH.format)) return std::string_view("takes plain tables only");
       return refuse_wide({a.table_VH, a.y_TH});
     },
     embedding_lookup_simd},
    {"blocks",
     [](const Exec&, const EmbeddingLookup& a) {
       if (is_plain(a.table_VH.format)) return std::string_view("takes tables in blocks only");
       return refuse_wide({a.y_TH});
     },
     embedding_lookup_blocks},
    {"reference", [](const Exec&, const EmbeddingLookup&) { return std::string_view(); },
     embedding_lookup_reference},
};
constexpr Implementation<EmbeddingAddPositions> kPositions[] = {
    {"simd",
     [](const Exec&, const EmbeddingAddPositions& a) {
       return refuse_wide({a.table_SH, a.y_TH});
     },
     embedding_add_positions_simd},
    {"reference", [](const Exec&, const EmbeddingAddPositions&) { return std::string_view(); },
     embedding_add_positions_reference},
};
constexpr Implementation<EmbeddingAddRows> kRows[] = {
    {"simd",
     [](const Exec&, const EmbeddingAddRows& a) {
       return refuse_wide({a.table_RH, a.y_TH});
     },
     embedding_add_rows_simd},
    {"reference", [](const Exec&, const EmbeddingAddRows&) { return std::string_view(); },
     embedding_add_rows_reference},
};
constexpr Implementation<EmbeddingBackward> kBackward[] = {
    {"simd",
     [](const Exec&, const EmbeddingBackward& a) {
       return refuse_wide({a.dy_TH, a.dtable_VH});
     },
     embedding_backward_simd},
    {"reference", [](const Exec&, const EmbeddingBackward&) { return std::string_view(); },
     embedding_backward_reference},
};

void check_rows(const ConstView& ids_T, const ConstView& rows_TH, const Shape& table_VH) {
  MEGA_CHECK_EQ(rows_TH.shape().num_dims(), 2);
  MEGA_CHECK_EQ(table_VH.num_dims(), 2);
  MEGA_CHECK_EQ(rows_TH.size(1), table_VH[1]);
  check_vector(ids_T, DType::i32, rows_TH.size(0));
}

/// Of rows added to all tokens, at most.
device::Work work_of_adding(const ConstView& ids_T, const ConstView& table, const View& y_TH) {
  check_rows(ids_T, y_TH, table.shape());
  check_storage({table, y_TH});
  const int64_t n = y_TH.num_elements();
  return {static_cast<double>(n), n * bytes_of(table.dtype()) + y_TH.bytes() + ids_T.bytes(),
          y_TH.bytes()};
}

}  // namespace

void embedding_lookup(Exec& exec, const EmbeddingLookup& a) {
  const Weight& table = a.table_VH;
  check_rows(a.ids_T, a.y_TH, table.shape);
  if (is_plain(table.format)) {
    check_storage({table, a.y_TH});
  } else {
    const Shape stored = stored_shape(table.format, table.shape);
    MEGA_CHECK(table.view.dtype() == DType::u8 && table.view.shape() == stored,
               "a table in {} is {} {}, not the tiles {}", table.format, table.view.dtype(),
               table.view.shape(), stored);
  }
  // Every row may be another one: as many bytes are read as rows are written.
  const int64_t rows = is_plain(table.format)
                           ? a.y_TH.num_elements() * bytes_of(table.view.dtype())
                           : a.y_TH.num_elements() / kBlockColumns * block_bytes(table.format);
  const int64_t read = rows + a.ids_T.bytes();
  run_chosen<EmbeddingLookup>(exec, "embedding_lookup", {0, read, a.y_TH.bytes()}, kLookup, a);
}

void embedding_add_positions(Exec& exec, const EmbeddingAddPositions& a) {
  const device::Work work = work_of_adding(a.position_T, a.table_SH, a.y_TH);
  run_chosen<EmbeddingAddPositions>(exec, "embedding_add_positions", work, kPositions, a);
}

void embedding_add_rows(Exec& exec, const EmbeddingAddRows& a) {
  const device::Work work = work_of_adding(a.ids_T, a.table_RH, a.y_TH);
  run_chosen<EmbeddingAddRows>(exec, "embedding_add_rows", work, kRows, a);
}

void check_positions(const EmbeddingAddPositions& a) {
  const int32_t* position = a.position_T.as<int32_t>();
  for (int64_t t = 0; t < a.y_TH.size(0); ++t) {
    MEGA_CHECK(position[t] >= 0 && position[t] < a.table_SH.size(0), "position {} of {}",
               position[t], a.table_SH.size(0));
  }
}

void embedding_backward(Exec& exec, const EmbeddingBackward& a) {
  check_rows(a.ids_T, a.dy_TH, a.dtable_VH.shape());
  check_storage({a.dy_TH, a.dtable_VH});
  MEGA_CHECK(!is_half(a.dtable_VH.dtype()));
  const int64_t n = a.dy_TH.num_elements();
  const int64_t gradient_bytes = n * bytes_of(a.dtable_VH.dtype());
  const device::Work work{static_cast<double>(n),
                          a.dy_TH.bytes() + gradient_bytes + a.ids_T.bytes(), gradient_bytes};
  run_chosen<EmbeddingBackward>(exec, "embedding_backward", work, kBackward, a);
}

}  // namespace megalith::kernels

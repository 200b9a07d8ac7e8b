// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/embedding/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<EmbeddingLookup> kLookup[] = {
    {"simd",
     [](const Exec&, const EmbeddingLookup& a) {
       return refuse_wide({a.table_VH, a.y_TH});
     },
     embedding_lookup_simd},
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
constexpr Implementation<EmbeddingBackward> kBackward[] = {
    {"simd",
     [](const Exec&, const EmbeddingBackward& a) {
       return refuse_wide({a.dy_TH, a.dtable_VH});
     },
     embedding_backward_simd},
    {"reference", [](const Exec&, const EmbeddingBackward&) { return std::string_view(); },
     embedding_backward_reference},
};

void check_rows(const ConstView& ids_T, const ConstView& rows_TH, const ConstView& table_VH) {
  MEGA_CHECK_EQ(rows_TH.shape().num_dims(), 2);
  MEGA_CHECK_EQ(table_VH.shape().num_dims(), 2);
  MEGA_CHECK_EQ(rows_TH.size(1), table_VH.size(1));
  check_vector(ids_T, DType::i32, rows_TH.size(0));
}

}  // namespace

void embedding_lookup(Exec& exec, const EmbeddingLookup& a) {
  check_rows(a.ids_T, a.y_TH, a.table_VH);
  check_storage({a.table_VH, a.y_TH});
  // Every row may be another one: as many bytes are read as rows are written.
  const int64_t read = a.y_TH.num_elements() * bytes_of(a.table_VH.dtype()) + a.ids_T.bytes();
  run_chosen<EmbeddingLookup>(exec, "embedding_lookup", {0, read, a.y_TH.bytes()}, kLookup, a);
}

void embedding_add_positions(Exec& exec, const EmbeddingAddPositions& a) {
  check_rows(a.position_T, a.y_TH, a.table_SH);
  check_storage({a.table_SH, a.y_TH});
  const int64_t n = a.y_TH.num_elements();
  const device::Work work{static_cast<double>(n),
                          n * bytes_of(a.table_SH.dtype()) + a.y_TH.bytes() + a.position_T.bytes(),
                          a.y_TH.bytes()};
  run_chosen<EmbeddingAddPositions>(exec, "embedding_add_positions", work, kPositions, a);
}

void check_positions(const EmbeddingAddPositions& a) {
  const int32_t* position = a.position_T.as<int32_t>();
  for (int64_t t = 0; t < a.y_TH.size(0); ++t) {
    MEGA_CHECK(position[t] >= 0 && position[t] < a.table_SH.size(0), "position {} of {}",
               position[t], a.table_SH.size(0));
  }
}

void embedding_backward(Exec& exec, const EmbeddingBackward& a) {
  check_rows(a.ids_T, a.dy_TH, a.dtable_VH);
  check_storage({a.dy_TH, a.dtable_VH});
  MEGA_CHECK_NE(a.dtable_VH.dtype(), DType::bf16);
  const int64_t n = a.dy_TH.num_elements();
  const int64_t gradient_bytes = n * bytes_of(a.dtable_VH.dtype());
  const device::Work work{static_cast<double>(n),
                          a.dy_TH.bytes() + gradient_bytes + a.ids_T.bytes(), gradient_bytes};
  run_chosen<EmbeddingBackward>(exec, "embedding_backward", work, kBackward, a);
}

}  // namespace megalith::kernels

// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/pool_rows.h"

#include <algorithm>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/reduction/implementations.h"

namespace megalith::kernels {
namespace {

constexpr Implementation<PoolRowsForward> kForward[] = {
    {"simd",
     [](const Exec&, const PoolRowsForward& a) {
       return refuse_wide({a.x_TH, a.y_UH});
     },
     pool_rows_forward_simd},
    {"reference", [](const Exec&, const PoolRowsForward&) { return std::string_view(); },
     pool_rows_forward_reference},
};
constexpr Implementation<PoolRowsBackward> kBackward[] = {
    {"simd",
     [](const Exec&, const PoolRowsBackward& a) {
       return refuse_wide({a.dy_UH, a.dx_TH});
     },
     pool_rows_backward_simd},
    {"reference", [](const Exec&, const PoolRowsBackward&) { return std::string_view(); },
     pool_rows_backward_reference},
};

void check_pooled(const ConstView& rows_TH, const ConstView& pooled_UH, const ConstView& ends) {
  MEGA_CHECK_EQ(rows_TH.shape().num_dims(), 2);
  MEGA_CHECK_EQ(pooled_UH.shape().num_dims(), 2);
  MEGA_CHECK_EQ(rows_TH.size(1), pooled_UH.size(1));
  check_storage({rows_TH, pooled_UH});
  MEGA_CHECK(!is_half(pooled_UH.dtype()));
  check_vector(ends, DType::i32, ends.num_elements());
  MEGA_CHECK(ends.num_elements() >= 1 && ends.num_elements() - 1 <= pooled_UH.size(0),
             "{} ends of sequences for {} rows", ends.num_elements(), pooled_UH.size(0));
}

/// Every row may be read, and is once at most: the cost does not know where sequences end.
device::Work work_of(const ConstView& read, const ConstView& written) {
  return {static_cast<double>(std::max(read.num_elements(), written.num_elements())), read.bytes(),
          written.bytes()};
}

/// body(u, begin, end) for each pooled row: the rows of its sequence, none beyond the last.
template <typename Body>
void for_each_sequence(const ConstView& ends, int64_t pooled, const Body& body) {
  const auto* end = ends.as<int32_t>();
  const int64_t sequences = ends.num_elements() - 1;
  for (int64_t u = 0; u < pooled; ++u) {
    if (u < sequences) {
      body(u, end[u], end[u + 1]);
    } else {
      body(u, int32_t{0}, int32_t{0});
    }
  }
}

}  // namespace

void pool_rows_forward(Exec& exec, const PoolRowsForward& a) {
  check_pooled(a.x_TH, a.y_UH, a.cu_seqlens);
  run_chosen<PoolRowsForward>(exec, "pool_rows_forward", work_of(a.x_TH, a.y_UH), kForward, a);
}

void pool_rows_backward(Exec& exec, const PoolRowsBackward& a) {
  check_pooled(a.dx_TH, a.dy_UH, a.cu_seqlens);
  run_chosen<PoolRowsBackward>(exec, "pool_rows_backward", work_of(a.dy_UH, a.dx_TH), kBackward, a);
}

void pool_rows_forward_reference(Exec&, const PoolRowsForward& a) {
  for_each_sequence(a.cu_seqlens, a.y_UH.size(0), [&](int64_t u, int32_t begin, int32_t end) {
    const int32_t first = a.pooling == Pooling::last ? std::max(begin, end - 1) : begin;
    const int32_t last = a.pooling == Pooling::first ? std::min(begin + 1, end) : end;
    for (int64_t c = 0; c < a.y_UH.size(1); ++c) {
      double sum = 0;
      for (int32_t t = first; t < last; ++t) sum += read_double(a.x_TH, t, c);
      write_double(a.y_UH, u, c, last - first > 1 ? sum / (last - first) : sum);
    }
  });
}

void pool_rows_backward_reference(Exec&, const PoolRowsBackward& a) {
  for_each_sequence(
      a.cu_seqlens, a.cu_seqlens.num_elements() - 1, [&](int64_t u, int32_t begin, int32_t end) {
        for (int32_t t = begin; t < end; ++t) {
          const bool is_read = a.pooling == Pooling::mean ||
                               (a.pooling == Pooling::first && t == begin) ||
                               (a.pooling == Pooling::last && t + 1 == end);
          const double parts = a.pooling == Pooling::mean ? end - begin : 1;
          for (int64_t c = 0; c < a.dx_TH.size(1); ++c)
            write_double(a.dx_TH, t, c, is_read ? read_double(a.dy_UH, u, c) / parts : 0);
        }
      });
}

}  // namespace megalith::kernels

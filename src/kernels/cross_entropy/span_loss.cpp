// SPDX-License-Identifier: Apache-2.0
// A few operations for each row of two columns: plain loops on one thread are fast enough beside
// the layers of the same tokens.
#include "kernels/cross_entropy/span_loss.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "math/elementary_double.h"

namespace megalith::kernels {
namespace {

/// The polynomials, whose bits no C library changes.
struct OwnPowers {
  static double exp(double x) { return elementary::exp(x); }
  static double log(double x) { return elementary::log(x); }
};
struct LibraryPowers {
  static double exp(double x) { return std::exp(x); }
  static double log(double x) { return std::log(x); }
};

struct Rows {
  int64_t begin = 0, end = 0;
};

/// -log p of the target among the rows of one column; its gradient times `factor`.
template <typename Powers>
double column_loss(const SpanLoss& a, const Rows& rows, int64_t column, int64_t target,
                   double factor) {
  double most = read_double(a.y_TO, rows.begin, column);
  for (int64_t t = rows.begin; t < rows.end; ++t)
    most = std::max(most, read_double(a.y_TO, t, column));
  double sum = 0;
  for (int64_t t = rows.begin; t < rows.end; ++t)
    sum += Powers::exp(read_double(a.y_TO, t, column) - most);
  const double lse = most + Powers::log(sum);
  const int64_t row = rows.begin + target;
  const bool is_within = target >= 0 && row < rows.end;
  const double loss = lse - (is_within ? read_double(a.y_TO, row, column) : 0);
  if (a.dy_TO.absent()) return loss;
  const double each = (1 + 2 * static_cast<double>(a.z_loss) * lse) / sum;
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const double share = Powers::exp(read_double(a.y_TO, t, column) - most) * each;
    const double hit = is_within && t == row ? 1 : 0;
    write_double(a.dy_TO, t, column, factor * (share - hit));
  }
  return loss;
}

void clear_gradient(const SpanLoss& a, const Rows& rows) {
  if (a.dy_TO.absent()) return;
  for (int64_t t = rows.begin; t < rows.end; ++t)
    for (int64_t o = 0; o < a.dy_TO.size(1); ++o) write_double(a.dy_TO, t, o, 0);
}

template <typename Powers>
void all_sequences(Exec&, const SpanLoss& a) {
  const auto* ends = a.cu_seqlens.as<int32_t>();
  const int64_t sequences = a.cu_seqlens.num_elements() - 1, columns = a.y_TO.size(1);
  for (int64_t u = 0; u < a.weight_U.num_elements(); ++u) {
    const Rows rows = u < sequences ? Rows{ends[u], ends[u + 1]} : Rows{};
    const double weight = read_double(a.weight_U, 0, u);
    double sum = 0;
    if (weight == 0 || rows.begin == rows.end) {
      clear_gradient(a, rows);
    } else {
      const double factor = weight * static_cast<double>(a.scale) / static_cast<double>(columns);
      for (int64_t o = 0; o < columns; ++o)
        sum += column_loss<Powers>(a, rows, o, a.targets_UO.row<int32_t>(u)[o], factor);
    }
    write_double(a.loss_U, 0, u, sum / static_cast<double>(columns));
  }
  clear_gradient(a, {ends[sequences], a.y_TO.size(0)});
}

std::string_view takes_single(const Exec&, const SpanLoss& a) {
  return a.y_TO.dtype() == DType::f32 ? "" : "takes f32 only";
}
std::string_view takes_any(const Exec&, const SpanLoss&) { return {}; }

constexpr Implementation<SpanLoss> kSequences[] = {
    {"sequences", takes_single, all_sequences<OwnPowers>},
    {"reference", takes_any, all_sequences<LibraryPowers>}};

}  // namespace

void span_loss(Exec& exec, const SpanLoss& a) {
  const DType dtype = a.y_TO.dtype();
  MEGA_CHECK(dtype == DType::f32 || dtype == DType::f64, "{}", dtype);
  MEGA_CHECK_EQ(a.y_TO.shape().num_dims(), 2);
  const int64_t units = a.weight_U.num_elements(), columns = a.y_TO.size(1);
  check_vector(a.weight_U, DType::f32, units);
  check_vector(a.loss_U, dtype, units);
  check_vector(a.targets_UO, DType::i32, units * columns);
  check_vector(a.cu_seqlens, DType::i32, a.cu_seqlens.num_elements());
  MEGA_CHECK(a.cu_seqlens.num_elements() >= 1 && a.cu_seqlens.num_elements() - 1 <= units,
             "{} ends of sequences for {} of them", a.cu_seqlens.num_elements(), units);
  if (!a.dy_TO.absent()) {
    check_same_shape(a.dy_TO, a.y_TO);
    MEGA_CHECK_EQ(a.dy_TO.dtype(), dtype);
  }
  const int64_t written = a.loss_U.bytes() + (a.dy_TO.absent() ? 0 : a.dy_TO.bytes());
  const device::Work work{
      4 * static_cast<double>(a.y_TO.num_elements()),
      a.y_TO.bytes() + a.cu_seqlens.bytes() + a.targets_UO.bytes() + a.weight_U.bytes(), written};
  run_chosen<SpanLoss>(exec, "span_loss", work, kSequences, a);
}

}  // namespace megalith::kernels

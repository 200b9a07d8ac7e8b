// SPDX-License-Identifier: Apache-2.0
// What the three products share: arguments are checked, the cost is recorded, the first entry of
// the list that accepts runs. `exact` numerics never sees a library.
#include "kernels/matmul/linear.h"

#include <algorithm>

#include "base/integer.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/matmul/gemm.h"
#include "kernels/matmul/linear_lists.h"
#include "tensor/blocks.h"

namespace megalith::kernels {

template <>
struct HostLists<LinearBackwardWeight> {
  explicit HostLists(LinearBackwardWeight& arguments)
      : cu_runs(arguments.cu_runs.begin(), arguments.cu_runs.end()) {
    arguments.cu_runs = cu_runs;
  }
  std::vector<int32_t> cu_runs;
};

namespace {

using device::Work;

bool is_float_type(DType dtype) { return dtype == DType::f64 || is_narrow(dtype); }
bool is_code_type(DType dtype) { return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2; }

/// A result; of an operand the type may be one of codes too.
template <typename View>
void check_matrix(const View& view, const char* name, int64_t rows, int64_t columns,
                  bool operand = false) {
  MEGA_CHECK(view.shape() == (Shape{rows, columns}), "{} is {}, not [{}, {}]", name, view.shape(),
             rows, columns);
  MEGA_CHECK(is_float_type(view.dtype()) || (operand && is_code_type(view.dtype())), "{} is {}",
             name, view.dtype());
  MEGA_CHECK(rows <= 1 || view.row_stride() >= columns, "{}: rows of {} elements are {} apart",
             name, columns, view.row_stride());
  MEGA_CHECK(!view.absent() || rows * columns == 0, "{} is absent", name);
}

void check_operand(const ConstView& view, const char* name, int64_t rows, int64_t columns) {
  check_matrix(view, name, rows, columns, true);
}

void check_scale(const ConstView& scale) {
  if (scale) check_vector(scale, DType::f32, 1);
}

void check_shards(int k_shards, int64_t width) {
  MEGA_CHECK_LE(k_shards, 1 << (matmul::kMaxLevels - 1));
  MEGA_CHECK(k_shards >= 1 && width >= 1 && width % k_shards == 0,
             "{} contracted elements do not cut into {} equal shards", width, k_shards);
}

void check_weight(const Weight& w_OI, int64_t outputs, int64_t inputs) {
  if (is_plain(w_OI.format)) {
    check_operand(w_OI.view, "w_OI", outputs, inputs);
    return;
  }
  MEGA_CHECK(w_OI.shape == (Shape{outputs, inputs}), "w_OI in {} is {}, not [{}, {}]", w_OI.format,
             w_OI.shape, outputs, inputs);
  const Shape stored = stored_shape(w_OI.format, w_OI.shape);
  MEGA_CHECK(w_OI.view.dtype() == DType::u8 && w_OI.view.shape() == stored &&
                 w_OI.view.is_contiguous() && (!w_OI.view.absent() || outputs == 0),
             "w_OI in {} is {} {}, not the tiles {}", w_OI.format, w_OI.view.dtype(),
             w_OI.view.shape(), stored);
}

bool is_bias_type(DType bias, const Weight& w_OI) {
  const bool is_type = is_plain(w_OI.format) && is_float_type(w_OI.view.dtype());
  return bias == DType::f32 || (is_type ? bias == w_OI.view.dtype() : is_half(bias));
}

void check_arguments(const LinearForward& a) {
  MEGA_CHECK(a.x_TI.shape().num_dims() == 2 && a.w_OI.shape.num_dims() == 2);
  const int64_t rows = a.x_TI.size(0), inputs = a.x_TI.size(1), outputs = a.w_OI.shape[0];
  check_operand(a.x_TI, "x_TI", rows, inputs);
  check_shards(a.k_shards, inputs);
  check_weight(a.w_OI, outputs, inputs);
  check_scale(a.scale);
  MEGA_CHECK(is_plain(a.w_OI.format) || (is_float_type(a.x_TI.dtype()) && !a.scale),
             "codes or a scale with weights in {}", a.w_OI.format);
  MEGA_CHECK(a.w_OI.format != Format::fp8 || inputs / a.k_shards % kCodeColumns == 0,
             "{} columns of a shard of weights in fp8", inputs / a.k_shards);
  check_matrix(a.y_TO, "y_TO", rows, outputs);
  if (a.bias_O) {
    MEGA_CHECK(a.bias_O.shape() == Shape{outputs}, "bias_O is {}", a.bias_O.shape());
    MEGA_CHECK(is_bias_type(a.bias_O.dtype(), a.w_OI), "bias_O is {}, w_OI {}", a.bias_O.dtype(),
               a.w_OI.format);
  }
  if (a.pre_activation_TO) check_matrix(a.pre_activation_TO, "pre_activation_TO", rows, outputs);
}

void check_arguments(const LinearBackwardInput& a) {
  MEGA_CHECK(a.dy_TO.shape().num_dims() == 2 && a.w_OI.view.shape().num_dims() == 2);
  const int64_t rows = a.dy_TO.size(0), outputs = a.dy_TO.size(1), inputs = a.w_OI.view.size(1);
  check_operand(a.dy_TO, "dy_TO", rows, outputs);
  MEGA_CHECK(is_plain(a.w_OI.format), "no input gradient through weights in {}", a.w_OI.format);
  check_operand(a.w_OI.view, "w_OI", outputs, inputs);
  check_scale(a.scale);
  check_matrix(a.dx_TI, "dx_TI", rows, inputs);
  check_shards(a.k_shards, outputs);
  MEGA_CHECK(rows == 0 || a.pre_activation_TI.absent() == (a.activation == Activation::none),
             "an activation and its pre-activation come together");
  if (a.pre_activation_TI) check_matrix(a.pre_activation_TI, "pre_activation_TI", rows, inputs);
}

void check_arguments(const LinearBackwardWeight& a) {
  MEGA_CHECK(a.dy_TO.shape().num_dims() == 2 && a.x_TI.shape().num_dims() == 2);
  const int64_t rows = a.dy_TO.size(0), outputs = a.dy_TO.size(1), inputs = a.x_TI.size(1);
  check_operand(a.dy_TO, "dy_TO", rows, outputs);
  check_operand(a.x_TI, "x_TI", rows, inputs);
  check_matrix(a.dw_OI, "dw_OI", outputs, inputs);
  check_scale(a.scale);
  MEGA_CHECK(!is_half(a.dw_OI.dtype()), "a weight gradient is accumulated in f32");
  MEGA_CHECK(a.cu_runs.empty() || (a.cu_runs.front() == 0 && a.cu_runs.back() == rows),
             "runs from {} to {} of {} rows", a.cu_runs.front(), a.cu_runs.back(), rows);
  MEGA_CHECK(std::ranges::is_sorted(a.cu_runs), "a run ends before it begins");
}

Work work_of(const LinearForward& a) {
  const double flops =
      2.0 * static_cast<double>(a.y_TO.num_elements()) * static_cast<double>(a.x_TI.size(1));
  const int64_t bias = a.bias_O ? a.bias_O.bytes() : 0;
  const int64_t u = a.pre_activation_TO ? a.pre_activation_TO.bytes() : 0;
  return {.flops = flops,
          .bytes_read = a.x_TI.bytes() + a.w_OI.view.bytes() + bias,
          .bytes_written = a.y_TO.bytes() + u};
}

Work work_of(const LinearBackwardInput& a) {
  const double flops =
      2.0 * static_cast<double>(a.dx_TI.num_elements()) * static_cast<double>(a.dy_TO.size(1));
  const int64_t u = a.pre_activation_TI ? a.pre_activation_TI.bytes() : 0;
  return {.flops = flops,
          .bytes_read = a.dy_TO.bytes() + a.w_OI.view.bytes() + u,
          .bytes_written = a.dx_TI.bytes()};
}

Work work_of(const LinearBackwardWeight& a) {
  const double flops =
      2.0 * static_cast<double>(a.dw_OI.num_elements()) * static_cast<double>(a.x_TI.size(0));
  return {.flops = flops,
          .bytes_read = a.dy_TO.bytes() + a.x_TI.bytes() + a.dw_OI.bytes(),
          .bytes_written = a.dw_OI.bytes()};
}

template <typename Arguments>
std::string_view accepts(const Exec&, const Arguments&) {
  return {};
}

/// What `fast` alone may take comes first; an exact run begins behind it.
template <typename Arguments>
constexpr size_t kFastEntries = 1;
template <typename Arguments>
constexpr Implementation<Arguments> kList[] = {
    {"onednn", matmul::onednn_refuses, matmul::onednn, matmul::onednn_scratch_bytes},
    {"exact", matmul::exact_refuses, matmul::exact, matmul::exact_scratch_bytes},
    {"reference", accepts<Arguments>, matmul::reference},
};
template <>
constexpr size_t kFastEntries<LinearForward> = 2;
template <>
constexpr Implementation<LinearForward> kList<LinearForward>[] = {
    {"dot8", matmul::dot8_refuses, matmul::dot8, matmul::dot8_scratch_bytes},
    {"onednn", matmul::onednn_refuses, matmul::onednn, matmul::onednn_scratch_bytes},
    {"exact", matmul::exact_refuses, matmul::exact, matmul::exact_scratch_bytes},
    {"reference", accepts<LinearForward>, matmul::reference},
};

template <typename Arguments>
std::span<const Implementation<Arguments>> list_for(const Exec& exec) {
  return std::span<const Implementation<Arguments>>(kList<Arguments>)
      .subspan(exec.numerics == Numerics::exact ? kFastEntries<Arguments> : 0);
}

template <typename Arguments>
void run(Exec& exec, std::string_view name, const Arguments& arguments) {
  check_arguments(arguments);
  run_chosen<Arguments>(exec, name, work_of(arguments), list_for<Arguments>(exec), arguments);
}

template <typename Arguments>
std::vector<std::string_view> implementations(const Exec& exec, const Arguments& arguments) {
  check_arguments(arguments);
  std::vector<std::string_view> names;
  for (const Implementation<Arguments>& entry : list_for<Arguments>(exec))
    if (entry.refuse(exec, arguments).empty()) names.push_back(entry.name);
  return names;
}

/// Weights in blocks are multiplied at rates of their own.
std::string_view forward_name(Format format) {
  switch (format) {
    case Format::q8_0:
      return "linear_forward.q8_0";
    case Format::q4_0:
      return "linear_forward.q4_0";
    case Format::q4_1:
      return "linear_forward.q4_1";
    case Format::fp8:
      return "linear_forward.fp8";
    default:
      return "linear_forward";
  }
}

}  // namespace

void linear_forward(Exec& exec, const LinearForward& a) {
  run(exec, forward_name(a.w_OI.format), a);
}
void linear_backward_input(Exec& exec, const LinearBackwardInput& a) {
  run(exec, "linear_backward_input", a);
}
void linear_backward_weight(Exec& exec, const LinearBackwardWeight& a) {
  run(exec, "linear_backward_weight", a);
}

std::vector<std::string_view> linear_implementations(const Exec& exec, const LinearForward& a) {
  return implementations(exec, a);
}
std::vector<std::string_view> linear_implementations(const Exec& exec,
                                                     const LinearBackwardInput& a) {
  return implementations(exec, a);
}
std::vector<std::string_view> linear_implementations(const Exec& exec,
                                                     const LinearBackwardWeight& a) {
  return implementations(exec, a);
}

}  // namespace megalith::kernels

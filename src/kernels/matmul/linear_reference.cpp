// SPDX-License-Identifier: Apache-2.0
// The three products in double precision, one element after another: the specification of all other
// entries. Sums have the shards and the tree of the exact arithmetic (in double, where they hardly
// matter, so that a wrong shard shows); what the operation rounds between its steps is rounded
// here.
#include "kernels/elementary/reference_access.h"
#include "kernels/elementwise/activation_reference.h"
#include "kernels/matmul/linear_lists.h"
#include "tensor/blocks.h"

namespace megalith::kernels::matmul {
namespace {

/// Rounds once to the type and gives the value back.
double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::f16:
      return static_cast<double>(to_f32(round_to_f16(value)));
    default:
      return static_cast<double>(to_f32(round_to_bf16(value)));
  }
}

/// tree over the sums term(k) of shards [lo, hi), each `width` long.
template <typename Term>
double shard_tree(const Term& term, int lo, int hi, int64_t width) {
  if (hi - lo == 1) {
    double sum = 0;
    for (int64_t k = lo * width; k < hi * width; ++k) sum += term(k);
    return sum;
  }
  const int mid = lo + (hi - lo + 1) / 2;
  return shard_tree(term, lo, mid, width) + shard_tree(term, mid, hi, width);
}

double scale_of(const ConstView& scale) {
  return scale ? static_cast<double>(*scale.as<float>()) : 1;
}

double read_weight(const Weight& w_OI, int64_t o, int64_t i) {
  if (is_plain(w_OI.format)) return read_double(w_OI.view, o, i);
  const bool is_code = w_OI.format == Format::fp8;
  return static_cast<double>(is_code ? tile_number(w_OI, o, i) : tile_value(w_OI, o, i));
}

}  // namespace

void reference(Exec& exec, const LinearForward& a) {
  const int64_t num_outputs = a.w_OI.shape[0], width = a.w_OI.shape[1] / a.k_shards;
  const DType u_dtype = a.pre_activation_TO ? a.pre_activation_TO.dtype() : a.y_TO.dtype();
  const ConstView bias_1O =
      a.bias_O ? ConstView(a.bias_O.data(), a.bias_O.dtype(), Shape{1, num_outputs}) : ConstView();
  const ConstView scales = row_scales(a.w_OI);
  exec.device.pool().for_range(a.x_TI.size(0), 1, [&](Range rows, int) {
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      for (int64_t o = 0; o < num_outputs; ++o) {
        const auto term = [&](int64_t i) {
          return read_double(a.x_TI, t, i) * read_weight(a.w_OI, o, i);
        };
        double sum = shard_tree(term, 0, a.k_shards, width) * scale_of(a.scale);
        if (scales && !a.unscaled) sum *= static_cast<double>(scales.as<float>()[o]);
        if (bias_1O) sum += read_double(bias_1O, 0, o);
        const double u = round_to(u_dtype, sum);
        if (a.pre_activation_TO) write_double(a.pre_activation_TO, t, o, u);
        write_double(a.y_TO, t, o, reference_activation(a.activation, u));
      }
    }
  });
}

void reference(Exec& exec, const LinearBackwardInput& a) {
  const int64_t num_inputs = a.w_OI.view.size(1), width = a.w_OI.view.size(0) / a.k_shards;
  exec.device.pool().for_range(a.dy_TO.size(0), 1, [&](Range rows, int) {
    for (int64_t t = rows.begin; t < rows.end; ++t) {
      for (int64_t i = 0; i < num_inputs; ++i) {
        const auto term = [&](int64_t o) {
          return read_double(a.dy_TO, t, o) * read_double(a.w_OI.view, o, i);
        };
        double sum = shard_tree(term, 0, a.k_shards, width) * scale_of(a.scale);
        if (a.pre_activation_TI)
          sum *= reference_activation_grad(a.activation, read_double(a.pre_activation_TI, t, i));
        write_double(a.dx_TI, t, i, sum);
      }
    }
  });
}

void reference(Exec& exec, const LinearBackwardWeight& a) {
  const int64_t num_rows = a.x_TI.size(0), num_inputs = a.dw_OI.size(1);
  exec.device.pool().for_range(a.dw_OI.size(0), 1, [&](Range outputs, int) {
    for (int64_t o = outputs.begin; o < outputs.end; ++o) {
      for (int64_t i = 0; i < num_inputs; ++i) {
        double sum = 0;
        for (int64_t t = 0; t < num_rows; ++t)
          sum += read_double(a.dy_TO, t, o) * read_double(a.x_TI, t, i);
        write_double(a.dw_OI, o, i, read_double(a.dw_OI, o, i) + sum * scale_of(a.scale));
      }
    }
  });
}

}  // namespace megalith::kernels::matmul

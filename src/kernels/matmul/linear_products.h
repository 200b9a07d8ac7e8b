// SPDX-License-Identifier: Apache-2.0
// The three operations as products of gemm.h. They differ only in which operand is which, and in
// which of its indices is contiguous.
#pragma once

#include "kernels/matmul/gemm.h"
#include "kernels/matmul/linear.h"
#include "tensor/blocks.h"

namespace megalith::kernels::matmul {

inline Operand operand_of(const ConstView& view, bool k_contiguous) {
  return {view.data(), view.dtype(), view.row_stride(), k_contiguous};
}

/// Of weights, plain or in blocks.
inline Operand operand_of(const Weight& w_OI) {
  if (is_plain(w_OI.format)) return operand_of(w_OI.view, true);
  const DType dtype = w_OI.format == Format::fp8 ? DType::f8_e4m3 : DType::f32;
  return {w_OI.view.data(), dtype, 0, true, w_OI.format};
}

/// y_TO = sum_I x[t, i] w[o, i]
inline Product product_of(const LinearForward& a) {
  Product product;
  product.m = a.x_TI.size(0);
  product.n = a.w_OI.shape[0];
  product.k = a.x_TI.size(1);
  product.k_shards = a.k_shards;
  product.a = operand_of(a.x_TI, true);
  product.b = operand_of(a.w_OI);
  product.epilogue.out = a.y_TO;
  product.epilogue.scale = a.scale;
  const ConstView scales = a.unscaled ? ConstView() : row_scales(a.w_OI);
  if (scales) product.epilogue.scales = scales.reshape(Shape{1, product.n});
  if (a.bias_O)
    product.epilogue.bias = ConstView(a.bias_O.data(), a.bias_O.dtype(), Shape{1, product.n});
  product.epilogue.pre_activation = a.pre_activation_TO;
  product.epilogue.activation = a.activation;
  return product;
}

/// dx_TI = sum_O dy[t, o] w[o, i]
inline Product product_of(const LinearBackwardInput& a) {
  Product product;
  product.m = a.dy_TO.size(0);
  product.n = a.w_OI.view.size(1);
  product.k = a.dy_TO.size(1);
  product.k_shards = a.k_shards;
  product.a = operand_of(a.dy_TO, true);
  product.b = operand_of(a.w_OI.view, false);
  product.epilogue.out = a.dx_TI;
  product.epilogue.scale = a.scale;
  product.epilogue.gradient_at = a.pre_activation_TI;
  product.epilogue.activation = a.activation;
  return product;
}

/// dw_OI += scale sum_T dy[t, o] x[t, i]
inline Product product_of(const LinearBackwardWeight& a) {
  Product product;
  product.m = a.dw_OI.size(0);
  product.n = a.dw_OI.size(1);
  product.k = a.x_TI.size(0);
  product.accumulate = !a.scale;
  product.cu_runs = a.cu_runs;
  product.a = operand_of(a.dy_TO, false);
  product.b = operand_of(a.x_TI, false);
  product.epilogue.out = a.dw_OI;
  product.epilogue.scale = a.scale;
  product.epilogue.add = !product.accumulate;
  return product;
}

}  // namespace megalith::kernels::matmul

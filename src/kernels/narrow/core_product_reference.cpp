// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "kernels/narrow/core_product.h"
#include "kernels/narrow/narrow_access.h"
#include "math/tensor_core.h"

namespace megalith::kernels {
namespace {

CoreOperand operand_of(DType dtype) { return dtype == DType::f8_e4m3 ? kCoreE4m3 : kCoreE5m2; }

std::vector<float> widened_row(const ConstView& codes, int64_t row) {
  std::vector<float> values(static_cast<size_t>(codes.size(1)));
  for (int64_t k = 0; k < codes.size(1); ++k) {
    values[static_cast<size_t>(k)] = read_float(codes, row, k);
  }
  return values;
}

}  // namespace

void core_product_reference(Exec&, const CoreProduct& a) {
  const CoreOperand a_type = operand_of(a.a_MK.dtype()), b_type = operand_of(a.b_NK.dtype());
  for (int64_t m = 0; m < a.a_MK.size(0); ++m) {
    const std::vector<float> row = widened_row(a.a_MK, m);
    for (int64_t n = 0; n < a.b_NK.size(0); ++n) {
      a.sum_MN.row<float>(m)[n] =
          core_dot(row, a_type, widened_row(a.b_NK, n), b_type, kHopper8, a.promote);
    }
  }
}

}  // namespace megalith::kernels

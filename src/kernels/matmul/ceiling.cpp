// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/ceiling.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/linear.h"

namespace megalith::kernels {

double gemm_ceiling(Exec& exec, DType dtype, double seconds) {
  struct Size {
    int64_t rows, inputs, outputs;
  };
  constexpr std::array<Size, 3> sizes{{{1024, 1024, 1024}, {2048, 768, 3072}, {4096, 768, 768}}};
  double best = 0;
  Exec plain(exec.device);  // `exec.only` may name a product's entry
  for (const auto& [rows, inputs, outputs] : sizes) {
    const device::Tensor x = exec.workspace.tensor(dtype, Shape{rows, inputs});
    const device::Tensor w = exec.workspace.tensor(dtype, Shape{outputs, inputs});
    const device::Tensor y = exec.workspace.tensor(dtype, Shape{rows, outputs});
    fill(plain, x, 0.5);
    fill(plain, w, 0.25);
    const double work = 2.0 * static_cast<double>(rows) * static_cast<double>(inputs) *
                        static_cast<double>(outputs);
    const double end = monotonic_seconds() + seconds / static_cast<double>(sizes.size());
    do {
      const double begin = monotonic_seconds();
      linear_forward(exec, {.x_TI = x, .w_OI = w, .y_TO = y});
      best = std::max(best, work / (monotonic_seconds() - begin));
    } while (monotonic_seconds() < end);
  }
  return best;
}

}  // namespace megalith::kernels

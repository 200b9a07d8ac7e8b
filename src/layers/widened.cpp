// SPDX-License-Identifier: Apache-2.0
#include "layers/widened.h"

#include "kernels/narrow/widen.h"

namespace megalith::layers {

Weight as_numbers(kernels::Exec& exec, const parameters::Parameter& weight, device::Tensor& made) {
  if (!weight.widens_to()) return weight.compute();
  made = exec.workspace.tensor(*weight.widens_to(), weight.local_shape());
  kernels::widen(exec, weight.compute(), made);
  return Weight(made.view);  // of no version: every pass makes it anew
}

}  // namespace megalith::layers

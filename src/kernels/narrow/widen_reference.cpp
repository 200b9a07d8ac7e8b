// SPDX-License-Identifier: Apache-2.0
// The specification: block by block as tensor/blocks.h widens one.
#include "kernels/elementary/reference_access.h"
#include "kernels/narrow/implementations.h"
#include "tensor/blocks.h"

namespace megalith::kernels {

void widen_reference(Exec&, const Widen& arguments) {
  const Weight& w = arguments.w_OI;
  float values[kBlockColumns];
  for (int64_t t = 0; t < arguments.y_TI.size(0); ++t) {
    for (int64_t block = 0; block < w.shape[1] / kBlockColumns; ++block) {
      widen_block(w, arguments.first + t, block, values);
      for (int64_t i = 0; i < kBlockColumns; ++i)
        write_double(arguments.y_TI, t, block * kBlockColumns + i, static_cast<double>(values[i]));
    }
  }
}

}  // namespace megalith::kernels

// SPDX-License-Identifier: Apache-2.0
// How much of a loop over rows is worth another thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace megalith::kernels {

/// Rows of `columns` elements that have `elements` together, at least one.
constexpr int64_t row_grain(int64_t columns, int64_t elements) {
  return std::max<int64_t>(1, elements / std::max<int64_t>(1, columns));
}

}  // namespace megalith::kernels

// SPDX-License-Identifier: Apache-2.0
// The specification: each element asks Philox by itself.
#include "kernels/elementary/reference_access.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"
#include "math/random.h"

namespace megalith::kernels {
namespace {

bool keeps(const Dropout& dropout, int64_t row, int64_t column) {
  const auto channel = static_cast<uint64_t>(dropout.channel_begin + column);
  const auto position = static_cast<uint64_t>(dropout.position_T.as<int32_t>()[row]);
  const auto sample = static_cast<uint64_t>(dropout.sample_T.as<int64_t>()[row]);
  const PhiloxBlock words = philox(dropout.key, position << 32 | channel / 4, sample);
  return words[channel % 4] >= dropout_threshold(dropout.p);
}

}  // namespace

void residual_dropout_reference(Exec&, const ResidualDropoutForward& arguments) {
  const ConstView x = as_matrix(arguments.x_TH);
  const View y = as_matrix(arguments.y_TH);
  const Dropout& dropout = arguments.dropout;
  const double factor = 1 / (1 - static_cast<double>(dropout.p));
  for (int64_t t = 0; t < y.size(0); ++t) {
    for (int64_t c = 0; c < y.size(1); ++c) {
      double value = read_double(x, t, c);
      if (dropout.p > 0) value = keeps(dropout, t, c) ? value * factor : 0.0;
      if (!arguments.residual_TH.absent()) {
        value = read_double(as_matrix(arguments.residual_TH), t, c) + value;
      }
      write_double(y, t, c, value);
    }
  }
}

}  // namespace megalith::kernels

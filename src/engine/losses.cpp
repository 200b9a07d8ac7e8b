// SPDX-License-Identifier: Apache-2.0
#include "engine/losses.h"

#include <algorithm>

namespace megalith::engine {

std::vector<double> sample_sums(std::span<const data::HostBatch> micro_batches,
                                std::span<const double> loss_T) {
  std::vector<double> sums;
  size_t at = 0;
  for (const data::HostBatch& batch : micro_batches) {
    for (size_t t = 0; t < batch.ids_T.size(); ++t, ++at) {
      if (t % static_cast<size_t>(batch.sequence_length) == 0) sums.push_back(0);
      // A token of weight 0 has no target to speak of: its loss may be anything.
      if (batch.loss_weight_T[t] != 0) {
        sums.back() += static_cast<double>(batch.loss_weight_T[t]) * loss_T[at];
      }
    }
  }
  return sums;
}

std::vector<double> read_losses(device::Device& device, ConstView loss_T) {
  std::vector<double> host(static_cast<size_t>(loss_T.num_elements()));
  if (loss_T.dtype() == DType::f64) {
    device.wait(device.copy_to_host(host.data(), loss_T));
  } else {
    std::vector<float> narrow(host.size());
    device.wait(device.copy_to_host(narrow.data(), loss_T));
    std::ranges::copy(narrow, host.begin());
  }
  return host;
}

}  // namespace megalith::engine

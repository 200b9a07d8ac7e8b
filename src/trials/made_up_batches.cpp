// SPDX-License-Identifier: Apache-2.0
#include "trials/made_up_batches.h"

#include "account/traced_step.h"

namespace megalith::trials {

std::vector<data::HostBatch> made_up_batches(const engine::Settings& settings) {
  std::vector<data::HostBatch> batches = account::shaped_batches(settings);
  int64_t id = 0;
  const auto fill = [&](std::vector<int32_t>& ids) {
    for (int32_t& made_up : ids) {
      made_up = static_cast<int32_t>(id % settings.model.vocab);
      id = (id * 31 + 17) % 1'000'003;
    }
  };
  for (data::HostBatch& batch : batches) {
    fill(batch.encoder.ids_T);
    fill(batch.ids_T);
    fill(batch.targets_T);
  }
  return batches;
}

}  // namespace megalith::trials

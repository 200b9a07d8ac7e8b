// SPDX-License-Identifier: Apache-2.0
// Batches of steps that are run for their time alone.
#pragma once

#include <vector>

#include "data/host_batch.h"
#include "engine/settings.h"

namespace megalith::trials {

/// One data rank's batches of a step, with ids that jump about.
std::vector<data::HostBatch> made_up_batches(const engine::Settings& settings);

}  // namespace megalith::trials

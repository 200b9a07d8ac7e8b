// SPDX-License-Identifier: Apache-2.0
// The table of who does what, at the start of a run of several ranks.
#pragma once

#include <vector>

#include "account/plan.h"
#include "engine/settings.h"

namespace megalith::apps {

/// Rank by rank what of the model and the batch is where, with its planned memory; nothing for one
/// rank. At most a screenful.
void print_layout(const engine::Settings& settings,
                  const std::vector<account::MemoryByClass>& memories, int threads);

}  // namespace megalith::apps

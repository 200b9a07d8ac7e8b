// SPDX-License-Identifier: Apache-2.0
// A schedule in virtual time on stages that share cores (processor sharing): of ranks that compute
// at the same moment each has an equal part of the cores, so a stage that waits lends its own to
// the others. Transfers take no time, as in timeline.h.
#pragma once

#include "parallel/timeline.h"

namespace megalith::parallel {

/// `seconds_of(stage, action)`: with a core for each rank, asked once for every forward and
/// backward. `share_of(stages)`: the part of these seconds that pass in one second while so many
/// stages compute; in (0, 1], not rising. `busy` of the result is the time that stages compute,
/// shared or not. InternalError when the schedule does not finish.
Timeline simulate_shared(const std::vector<std::vector<Action>>& schedule,
                         FunctionRef<double(int stage, const Action& action)> seconds_of,
                         FunctionRef<double(int stages)> share_of);

}  // namespace megalith::parallel

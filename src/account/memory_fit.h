// SPDX-License-Identifier: Apache-2.0
// Does a run fit into memory? The plan is exact, so the answer is known before the first step; when
// it is no, candidates are planned until the smallest change that fits is found. Order of changes:
// what costs nothing but a short wait (checkpoint.async), what costs some speed (micro-batch,
// recomputation), and last what changes the result (bf16).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "config/recipe.h"
#include "device/available_memory.h"

namespace megalith::account {

/// What a process takes beside its plan: program, libraries, data road, logs. Measured as "outside"
/// in run.json.
inline constexpr int64_t kOutsideBytes = int64_t{64} << 20;

/// Planned bytes of all ranks on this machine, under a recipe.
using PlannedBytes = FunctionRef<int64_t(const config::Recipe&)>;

/// UserError with the numbers and the smallest change that fits when the plan and the reserve of
/// each of `processes` are more than are available.
void check_memory(const config::Recipe& recipe, PlannedBytes planned,
                  const device::AvailableMemory& available, int64_t processes = 1);

/// Ranks that share some memory have one name; the first of a name judges for all of it: the ranks
/// that `rank` judges, in order, none if another does. names[r] is that of rank r.
std::vector<int> judged_by(int rank, std::span<const std::string> names);

}  // namespace megalith::account

// SPDX-License-Identifier: Apache-2.0
// The numbers behind the charts of the report page, as the JSON that page.js reads.
#pragma once

#include <string>

#include "report/run_record.h"

namespace megalith::report {

/// The most points that a curve has.
inline constexpr int64_t kMaxPoints = 2000;

/// The most tasks whose validation losses are curves.
inline constexpr size_t kMaxTasks = 12;

/// One JSON object:
///   {"window": n, "ceiling_gflops": g or null, "curves": {name: {"x": [step...], "y": [...]}},
///    "memory": [{"name", "planned", "measured"}]}
/// Curves: loss, validation_loss, lr, grad_norm, loss_scale, tokens_per_second, mfu (percent),
/// step_seconds, those of answers that are compared (kComparedNames, the same of validations), and
/// validation_loss/TASK of the first tasks that have one; the noisy ones also as <name>_smooth,
/// averaged over about `window` steps. Numbers that are not finite are left out.
std::string chart_data(const RunRecord& record);

/// The memory classes that run.json lists, in the order of the plan, "total" last.
std::vector<std::string> memory_classes(const RunRecord& record);

}  // namespace megalith::report

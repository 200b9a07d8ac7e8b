// SPDX-License-Identifier: Apache-2.0
// A table of measured latencies with the columns of NeMo-Megatron-Launcher's inference summary:
//   TP,PP,BS,Latency [ms],Throughput per GPU [samples/sec/gpu]
// The last is worked out where it is absent and held to the others where it is there. Beside them
// `TTFT [ms]` and `TPOT [ms]` are known; other columns are the reader's own. A latency that is no
// number ("OOM", "MISSING_LOG", nothing) makes a row without figures.
#pragma once

#include <filesystem>
#include <vector>

#include "serving_plan/candidate.h"

namespace megalith::serving_plan {

/// UserError with file and line for what is no such table: columns that are missing or twice, cells
/// too many or too few, numbers that cannot be, no rows.
std::vector<Candidate> read_measured_table(const std::filesystem::path& path);

}  // namespace megalith::serving_plan

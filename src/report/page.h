// SPDX-License-Identifier: Apache-2.0
// The run report: one self-contained HTML page (numbers, styles, Chart.js), to be mailed, archived
// and opened without a network.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/run_record.h"

namespace megalith::report {

/// Where Chart.js may be on this machine; set by the build.
std::vector<std::filesystem::path> chart_js_paths();

/// Reads recipe.yaml, run.json, metrics.jsonl and, if present, samples.jsonl in `run_folder`,
/// writes report.html beside them (replacing an older one) and returns its path. The run may still
/// be going on. UserError if one of the first three files or Chart.js is missing, IntegrityError if
/// a file cannot be understood.
std::filesystem::path write_report(
    const std::filesystem::path& run_folder,
    const std::vector<std::filesystem::path>& chart_js = chart_js_paths());

/// The page itself; `chart_js` is the source of the library.
std::string render_page(const RunRecord& record, const std::string& folder_name,
                        const std::string& chart_js);

}  // namespace megalith::report

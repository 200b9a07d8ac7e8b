// SPDX-License-Identifier: Apache-2.0
// The parts of the report page that are text and tables, as escaped HTML. Each shows what the run
// recorded and omits what it did not.
#pragma once

#include <string>

#include "report/run_record.h"

namespace megalith::report {

/// The run's name, or the folder's.
std::string run_title(const RunRecord& record, const std::string& folder_name);
/// " · started ...", or nothing.
std::string started_html(const RunRecord& record);
/// The line under the title: status, model, parameters, machine.
std::string header_html(const RunRecord& record);
/// Warnings: steps whose loss or gradient norm is not a number. Empty if there are none.
std::string notices_html(const RunRecord& record);
/// The row of large figures.
std::string tiles_html(const RunRecord& record);
/// Planned against measured bytes, by class.
std::string memory_html(const RunRecord& record);
/// Where the wall time went, by bucket. IntegrityError when a bucket is not a number.
std::string accounts_html(const RunRecord& record);
/// The last step's numbers, exactly.
std::string numbers_html(const RunRecord& record);
/// Versions, fingerprints, machine.
std::string provenance_html(const RunRecord& record);
/// Scores on tasks, by checkpoint.
std::string tasks_html(const RunRecord& record);
/// Text samples, by prompt and step.
std::string samples_html(const RunRecord& record);

}  // namespace megalith::report

// SPDX-License-Identifier: Apache-2.0
// megalith plan --paper: the memory table of Korthikanti et al. 2022 found again by tracing.
#pragma once

namespace megalith::apps {

/// Prints the table, or one JSON object; gives the exit code.
int print_paper_plan(bool json);

}  // namespace megalith::apps

// SPDX-License-Identifier: Apache-2.0
// The name of this machine: for logs, locks and messages of ranks.
#pragma once

#include <string>

namespace megalith {

/// gethostname(2). SystemError when there is none.
std::string host_name();

}  // namespace megalith

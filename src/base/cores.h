// SPDX-License-Identifier: Apache-2.0
// The part of available_cores() (thread_pool.h) that tests can reach without a control group.
#pragma once

#include <string>

namespace megalith {

/// Cores that a CPU quota in microseconds per period allows, rounded up; the largest int when the
/// texts are not positive numbers ("max", "-1", empty), which means no limit.
int cores_of_quota(const std::string& quota, const std::string& period);

}  // namespace megalith

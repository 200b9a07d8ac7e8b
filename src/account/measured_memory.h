// SPDX-License-Identifier: Apache-2.0
// What a rank took of memory, for run.json.
#pragma once

#include <nlohmann/json.hpp>

#include "comm/communicator.h"
#include "device/device.h"

namespace megalith::account {

/// High-water marks in bytes by class, and under "outside" what the process grew by beyond the
/// arenas of its ranks since `resident_at_start`. Collective.
nlohmann::ordered_json measured_memory(comm::Communicator& world, const device::Device& device,
                                       int64_t resident_at_start);

}  // namespace megalith::account

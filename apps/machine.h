// SPDX-License-Identifier: Apache-2.0
// The machine as commands report it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "device/device.h"

namespace megalith::apps {

/// {"cpu", "isa", "threads", "memory_bytes", "host"}
nlohmann::ordered_json machine_json(const device::Target& target);

}  // namespace megalith::apps

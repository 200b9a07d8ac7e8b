// SPDX-License-Identifier: Apache-2.0
// What commands say of the machine that they run on.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "device/target.h"

namespace megalith::apps {

/// {"cpu", "isa", "threads", "memory_bytes", "host"}
nlohmann::ordered_json machine_json(const device::Target& target);

}  // namespace megalith::apps

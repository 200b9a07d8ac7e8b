// SPDX-License-Identifier: Apache-2.0
// The description of bottleneck adapters that AdapterHub's `adapters` library writes
// (adapter_config.json with the key "config"). What would change the arithmetic of "double_seq_bn"
// and has no code here is refused by name. Source: BnConfig of adapters 1.x.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "adapters/bottleneck.h"

namespace megalith::adapters {

/// UserError that names the key; `where` begins it.
Bottlenecks parse_bottleneck_config(const nlohmann::json& json, const std::string& where);

}  // namespace megalith::adapters

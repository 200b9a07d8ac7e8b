// SPDX-License-Identifier: Apache-2.0
// The description of bottleneck adapters that AdapterHub's `adapters` library writes
// (adapter_config.json with the key "config"). Settings that differ in arithmetic from
// "double_seq_bn" are refused by name. Source: BnConfig of adapters 1.x.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "adapters/bottleneck.h"

namespace megalith::adapters {

/// UserError that begins with `where` and names the key.
Bottlenecks parse_bottleneck_config(const nlohmann::json& json, const std::string& where);

}  // namespace megalith::adapters

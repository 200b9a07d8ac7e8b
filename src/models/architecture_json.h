// SPDX-License-Identifier: Apache-2.0
// An architecture as JSON, for checkpoints and for plans.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/architecture.h"

namespace megalith::models {

nlohmann::json to_json(const Architecture& architecture);
/// UserError naming `where` when a field is missing, of the wrong type or unknown in value; the
/// result has passed Architecture::check.
Architecture architecture_from(const nlohmann::json& json, const std::string& where);

}  // namespace megalith::models

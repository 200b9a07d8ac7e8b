// SPDX-License-Identifier: Apache-2.0
// Rotary positions in config.json: transformers 4 has rope_theta beside rope_scaling, 5 one object
// rope_parameters. Both are read; both are written, so that either release opens the folder.
#pragma once

#include "models/config_keys.h"
#include "spec/layer_spec.h"

namespace megalith::models {

/// UserError naming the key of a scaling that has no code here. `dim` elements of a head turn.
layers::RopeSpec read_rope(const ConfigKeys& keys, int64_t dim, int64_t context);
void write_rope(const layers::RopeSpec& rope, int64_t context, nlohmann::ordered_json& json);

}  // namespace megalith::models

// SPDX-License-Identifier: Apache-2.0
// The learned vectors that a recipe asks for, in a model of a family: by our products for the
// engine (ia3/learned_vectors.h), and by the modules of the model's own folder for what is written.
// Those of products that read what an attention or an MLP made multiply the inputs, the others the
// outputs.
#pragma once

#include <string>
#include <vector>

#include "config/tune_section.h"
#include "ia3/learned_vectors.h"
#include "peft/target_modules.h"

namespace megalith::tune {

struct Ia3Modules {
  TargetModules of;
  std::vector<std::string> feedforward;  // those of the targets whose inputs are multiplied
  ia3::MultipliedProducts products;
  int64_t parameters = 0;
};

/// Without tune.targets, PEFT's default for the family; for phi3, olmo2, starcoder2, albert and
/// modernbert, which it does not know, the projections of keys and values and the one that ends the
/// MLP. UserError as target_modules(), when a family has no default, and when a target matches
/// modules of both kinds.
Ia3Modules ia3_modules(const config::TuneSection& tune, const models::ModelSpec& spec,
                       int tensor_shards);

}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
// The low-rank factors that a recipe asks for, in a model of a family: by our products for the
// engine (low_rank/factors.h), and by the modules of the model's own folder for what is written.
#pragma once

#include <vector>

#include "config/tune_section.h"
#include "low_rank/factors.h"
#include "peft/target_modules.h"

namespace megalith::tune {

struct LoraModules {
  TargetModules of;
  std::vector<int64_t> first;  // by module: where its rows of our a begin
  low_rank::FactoredProducts products;
  int64_t parameters = 0;
};

/// UserError as target_modules().
LoraModules lora_modules(const config::TuneSection& tune, const models::ModelSpec& spec,
                         int tensor_shards);

}  // namespace megalith::tune

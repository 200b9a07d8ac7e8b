// SPDX-License-Identifier: Apache-2.0
// The low-rank factors that a recipe asks for, in a model of a family: by our products for the
// engine (low_rank/factors.h), and by the modules of the model's own folder for what is written.
#pragma once

#include <string>
#include <vector>

#include "config/tune_section.h"
#include "low_rank/factors.h"
#include "models/foreign_map.h"

namespace megalith::tune {

/// A module as part of one of our products.
struct LoraModule {
  std::string name;    // "model.layers.0.self_attn.q_proj"
  std::string weight;  // ours that it is part of
  int64_t first = 0;   // its rows of our a begin here
  int64_t inputs = 0, outputs = 0;
  std::vector<models::RowMove> moves;  // rows of the module to ours
};

struct LoraModules {
  std::vector<LoraModule> modules;  // in the order of our weights
  low_rank::FactoredProducts products;
  std::vector<std::string> targets;  // ends of names that stand for the modules
  bool fan_in_fan_out = false;       // the folder's weights are [in, out]
  int64_t parameters = 0;
};

/// UserError when a target names no product of the layers; the message names some that do.
LoraModules lora_modules(const config::TuneSection& tune, const models::ModelSpec& spec,
                         int tensor_shards);

}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
#include "peft/lora_modules.h"

#include <cmath>

namespace megalith::tune {

LoraModules lora_modules(const config::TuneSection& tune, const models::ModelSpec& spec,
                         int tensor_shards) {
  LoraModules made;
  made.of = target_modules(tune.targets, spec, tensor_shards);
  const auto rank = static_cast<double>(tune.rank);
  made.products.scale = tune.alpha / (tune.rank_stabilised ? std::sqrt(rank) : rank);
  made.products.dropout = tune.dropout;
  made.products.has_magnitudes = tune.magnitudes;
  for (const TargetModule& module : made.of.modules) {
    low_rank::ProductRanks& ranks = made.products.products[module.weight];
    ranks.by_output.resize(static_cast<size_t>(module.shape[0]));
    const Range own{ranks.rank, ranks.rank + tune.rank};
    made.first.push_back(own.begin);
    ranks.rank = own.end;
    module.for_each_output(
        [&](int64_t, int64_t ours) { ranks.by_output[static_cast<size_t>(ours)] = own; });
    made.parameters += tune.rank * (module.inputs() + module.outputs);
    if (tune.magnitudes) made.parameters += module.outputs;
  }
  return made;
}

}  // namespace megalith::tune

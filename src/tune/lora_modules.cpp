// SPDX-License-Identifier: Apache-2.0
#include "tune/lora_modules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "adapters/module_names.h"
#include "base/error.h"
#include "families/families.h"
#include "store/adapter_source.h"

namespace megalith::tune {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string module_of(std::string_view weight) {
  return std::string(weight.substr(0, weight.size() - kWeight.size()));
}
std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

/// Our output that holds the module's output number `row` of this move.
int64_t our_output(const models::RowMove& move, int64_t row) {
  return move.ours + row / move.block * move.period + row % move.block;
}

class Finder {
 public:
  Finder(const config::TuneSection& tune, LoraModules& made) : tune_(tune), made_(made) {
    for (const std::string& target : tune.targets)
      names_.push_back({target, adapters::ModuleNames::listed({target})});
  }

  void add(const models::TensorMap& map) {
    low_rank::ProductRanks ranks;
    ranks.by_output.resize(static_cast<size_t>(map.shape[0]));
    const size_t before = made_.modules.size();
    for (const models::RowMove& move : map.moves) {
      const std::string name = module_of(move.name);
      known_.insert(last_part(name));
      if (!is_target(name)) continue;
      made_.fan_in_fan_out = move.transposed;
      targets_.insert(last_part(name));
      LoraModule& module = module_named(name, before, map, move, ranks);
      module.moves.push_back(move);
      for (int64_t row = 0; row < move.rows; ++row)
        ranks.by_output[static_cast<size_t>(our_output(move, row))] = {module.first,
                                                                       module.first + tune_.rank};
    }
    if (ranks.rank > 0) made_.products.products.emplace(map.name, std::move(ranks));
  }

  void finish(const std::string& family) {
    for (const Target& target : names_) {
      if (target.is_used) continue;
      throw UserError(
          "recipe: tune.targets: no product of the layers of model.family {} is called {:?}; there "
          "are {}",
          family, target.text, fmt::join(known_, ", "));
    }
    made_.targets = tune_.targets;
    if (made_.targets.empty()) made_.targets.assign(targets_.begin(), targets_.end());
  }

 private:
  struct Target {
    std::string text;
    adapters::ModuleNames names;
    bool is_used = false;
  };
  bool is_target(const std::string& module) {
    bool any = names_.empty();
    for (Target& target : names_) {
      if (!target.names.contains(module)) continue;
      target.is_used = any = true;
    }
    return any;
  }
  /// One of this weight's, from number `begin` on: a module may be several runs of its rows.
  LoraModule& module_named(const std::string& name, size_t begin, const models::TensorMap& map,
                           const models::RowMove& move, low_rank::ProductRanks& ranks) {
    for (size_t i = begin; i < made_.modules.size(); ++i)
      if (made_.modules[i].name == name) return made_.modules[i];
    const int64_t outputs = move.shape[move.transposed ? 1 : 0];
    made_.modules.push_back({name, map.name, ranks.rank, map.shape[1], outputs, {}});
    ranks.rank += tune_.rank;
    made_.parameters += tune_.rank * (map.shape[1] + outputs);
    return made_.modules.back();
  }

  const config::TuneSection& tune_;
  LoraModules& made_;
  std::vector<Target> names_;
  std::set<std::string> known_, targets_;
};

}  // namespace

LoraModules lora_modules(const config::TuneSection& tune, const models::ModelSpec& spec,
                         int tensor_shards) {
  const models::ForeignTable& table =
      models::family_named(spec.family, "recipe: tune.model").tensors;
  LoraModules made;
  const auto rank = static_cast<double>(tune.rank);
  made.products.scale = tune.alpha / (tune.rank_stabilised ? std::sqrt(rank) : rank);
  made.products.dropout = tune.dropout;
  Finder finder(tune, made);
  for (const models::TensorMap& map : store::adaptable_products(spec, table, tensor_shards))
    finder.add(map);
  finder.finish(spec.family);
  return made;
}

}  // namespace megalith::tune

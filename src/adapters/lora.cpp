// SPDX-License-Identifier: Apache-2.0
#include "adapters/lora.h"

#include <algorithm>
#include <cmath>

namespace megalith::adapters {
namespace {

template <typename Value>
Value value_for(const std::vector<std::pair<NamePattern, Value>>& others, const std::string& module,
                Value otherwise) {
  for (const auto& [pattern, value] : others)
    if (pattern.matches(module)) return value;
  return otherwise;
}

}  // namespace

bool Lora::adapts(const std::string& module) const {
  if (excluded && excluded->contains(module)) return false;
  if (!targets.contains(module)) return false;
  if (layers.empty() || !targets.is_list() || targets.lists(module)) return true;
  const std::optional<int64_t> layer = layer_number(module, layer_patterns);
  return layer && std::ranges::find(layers, *layer) != layers.end();
}

int64_t Lora::rank_of(const std::string& module) const { return value_for(ranks, module, rank); }

double Lora::scale_of(const std::string& module) const {
  const auto r = static_cast<double>(rank_of(module));
  return value_for(alphas, module, alpha) / (rank_stabilised ? std::sqrt(r) : r);
}

}  // namespace megalith::adapters

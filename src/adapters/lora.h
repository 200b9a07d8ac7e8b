// SPDX-License-Identifier: Apache-2.0
// What a low-rank adapter is (Hu et al. 2022), whoever made it: which products of a model it adds
// to, y += scale (x A^T) B^T with A [r, I] and B [O, r], of what rank each, and how much; and
// whether W + scale B A has its rows rescaled to trained magnitudes (DoRA, Liu et al. 2024).
// Products have the names that the model's folder gives its modules
// ("model.layers.0.self_attn.q_proj"),
// as PEFT does. The values are elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/module_names.h"

namespace megalith::adapters {

/// Adapters of higher rank are refused.
inline constexpr int64_t kMostRank = 1 << 16;

struct Lora {
  int64_t rank = 8;
  double alpha = 8;
  /// The scale is alpha / sqrt(rank) (Kalajdzievski 2023), not alpha / rank.
  bool rank_stabilised = false;
  bool has_magnitudes = false;
  ModuleNames targets;
  std::optional<ModuleNames> excluded;
  /// Layers whose products are targets; empty: all. Of targets given by name alone.
  std::vector<int64_t> layers;
  /// What stands before the number of a layer in a name; empty: any name.
  std::vector<std::string> layer_patterns;
  /// Other ranks and alphas of some products: the first pattern that fits counts.
  std::vector<std::pair<NamePattern, int64_t>> ranks;
  std::vector<std::pair<NamePattern, double>> alphas;

  /// Whether a product is adapted. `module` has the name of one.
  bool adapts(const std::string& module) const;
  int64_t rank_of(const std::string& module) const;
  double scale_of(const std::string& module) const;
};

}  // namespace megalith::adapters

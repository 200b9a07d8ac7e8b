// SPDX-License-Identifier: Apache-2.0
// What an adapter of learned vectors is (IA3, Liu et al. 2022), whoever made it: which products of
// a model have one, y = (x W^T + b) * l of the outputs or y = (x * l) W^T + b of the inputs.
// Products have the names that the model's own folder gives its modules, as PEFT does. The values
// are elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adapters/module_names.h"

namespace megalith::adapters {

struct Ia3 {
  ModuleNames targets;
  std::optional<ModuleNames> excluded;
  /// Those of the targets whose inputs are multiplied: they end so, at whatever place of the name,
  /// or match the expression.
  std::vector<std::string> feedforward_ends;
  std::optional<NamePattern> feedforward;

  /// Whether a product has a vector. `module` has the name of one.
  bool adapts(const std::string& module) const;
  bool of_inputs(const std::string& module) const;
};

}  // namespace megalith::adapters

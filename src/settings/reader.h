// SPDX-License-Identifier: Apache-2.0
// Fills structs from a tree by their field lists.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "settings/field.h"
#include "settings/tree.h"

namespace megalith::settings {

/// Where each given field was written, by path ("data.train.0.weight").
using Positions = std::map<std::string, Position>;

/// Sets every field that `root` gives and leaves the others. Wrong types, values out of range and
/// unknown keys are added to `faults`; `known` are the paths to suggest for an unknown one.
void read_fields(const Node& root, VisitFields visit, const std::vector<std::string>& known,
                 Positions& positions, std::vector<Fault>& faults);

}  // namespace megalith::settings

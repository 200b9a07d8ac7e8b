// SPDX-License-Identifier: Apache-2.0
// What the command line says beside the file, brought into the tree.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "config/tree.h"

namespace megalith::config {

/// Applies one to the tree: the value is a flow list, flow map or quoted text if it begins like
/// one, else the text itself. A number in the path picks an item of a list. `ordinal` (from 1)
/// places its faults in the order of the command line.
void apply_override(Node& root, const Override& override, int ordinal, std::vector<Fault>& faults);

/// After all of them: of the keys of `section` that exclude each other, those that the file gives
/// go when an override gives one. (A number below 0 gives none.)
void drop_replaced(Node& root, std::string_view section, std::span<const std::string_view> keys);

}  // namespace megalith::config

// SPDX-License-Identifier: Apache-2.0
// Brings the options of the command line into a recipe's tree.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "settings/tree.h"

namespace megalith::settings {

/// Applies one option to the tree. A value that begins like a flow list, flow map or quoted text is
/// parsed as one; anything else is taken as text. A number in the path picks an item of a list.
/// `ordinal` (from 1) is the option's place on the command line, for messages.
void apply_override(Node& root, const Override& override, int ordinal, std::vector<Fault>& faults);

/// To be called after all options: among the keys of `section` that exclude each other, an option
/// that gives one removes the file's. (A number below 0 does not give one.)
void drop_replaced(Node& root, std::string_view section, std::span<const std::string_view> keys);

}  // namespace megalith::settings

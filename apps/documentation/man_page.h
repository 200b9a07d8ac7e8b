// SPDX-License-Identifier: Apache-2.0
// A command's manual page (section 1) in roff, with the macros of man(7).
#pragma once

#include <string>

#include "apps/documentation/command_tree.h"

namespace megalith::apps {

/// The page of `command`, whose name is the command's words with '-' between. `parent` is nothing
/// for the program itself.
std::string man_page(const CommandEntry& command, const CommandEntry* parent);

}  // namespace megalith::apps

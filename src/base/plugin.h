// SPDX-License-Identifier: Apache-2.0
// Plug-ins: what needs a heavy library is opened when it is used; the program starts without.
#pragma once

#include <string>

namespace megalith {

/// Whether the file lies beside the program, or in ../lib of it (an installation).
bool has_plugin(const std::string& file);

/// The function `entry` of the plug-in, which stays open. `is_global`: for libraries that open
/// parts of their own which look for their symbols. SystemError, "WHAT, but ...; REMEDY", when it
/// cannot be opened.
void* open_plugin(const std::string& file, const char* entry, bool is_global,
                  const std::string& what, const std::string& remedy);

}  // namespace megalith

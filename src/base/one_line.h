// SPDX-License-Identifier: Apache-2.0
// Text from files, names and libraries as one line for a terminal: what a hostile file holds must
// not move the cursor, ring the bell, forge a second line or fill the screen.
#pragma once

#include <string>
#include <string_view>

namespace megalith {

/// `text` with line ends and tabs as spaces, other control characters (C0, DEL, C1) as \xNN, bytes
/// that are not UTF-8 as \xNN, and all beyond `most_bytes` of input cut off with "...".
std::string one_line(std::string_view text, size_t most_bytes = 4096);

}  // namespace megalith

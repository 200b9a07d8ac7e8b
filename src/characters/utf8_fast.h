// SPDX-License-Identifier: Apache-2.0
// simdjson's vectorised check behind one function, so that its large header is read in one place.
#pragma once

#include <string_view>

namespace megalith::characters {

/// True if `text` is well-formed UTF-8.
bool is_utf8(std::string_view text);

}  // namespace megalith::characters

// SPDX-License-Identifier: Apache-2.0
// File names that come out of files: they may name an entry of the folder they lie in, never lead
// out of it.
#pragma once

#include <string_view>

namespace megalith::checkpoint {

inline bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace megalith::checkpoint

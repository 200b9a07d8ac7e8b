// SPDX-License-Identifier: Apache-2.0
// File names that were read from files: they may name an entry of their own folder, and never lead
// out of it.
#pragma once

#include <string_view>

namespace megalith::checkpoint {

inline bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace megalith::checkpoint

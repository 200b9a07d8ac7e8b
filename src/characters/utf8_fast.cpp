// SPDX-License-Identifier: Apache-2.0
#include "characters/utf8_fast.h"

#include <simdjson.h>

namespace megalith::characters {

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

}  // namespace megalith::characters

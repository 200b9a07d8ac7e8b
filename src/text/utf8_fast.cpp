// SPDX-License-Identifier: Apache-2.0
#include "text/utf8_fast.h"

#include <simdjson.h>

namespace megalith::text {

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

}  // namespace megalith::text

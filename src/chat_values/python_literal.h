// SPDX-License-Identifier: Apache-2.0
// Python's literals read back into values, as ast.literal_eval reads them: what a template printed
// with repr, or a column of a data set that holds a list as text.
#pragma once

#include <string_view>

#include "chat_values/value.h"

namespace megalith::chat {

/// Texts in any quotes (with escapes; raw ones and bytes are refused), numbers, True, False, None,
/// lists, tuples and dicts of these. Fault saying where it is none.
Value parse_literal(std::string_view text, Budget& budget);

}  // namespace megalith::chat

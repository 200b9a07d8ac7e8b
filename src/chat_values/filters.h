// SPDX-License-Identifier: Apache-2.0
// Jinja's filters and tests.
#pragma once

#include <string_view>

#include "chat_values/value.h"

namespace megalith::chat {

/// `input | name(arguments)`. A Fault names a filter that is not known or not supported.
Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments,
                   Budget& budget);
/// `input is name(arguments)`.
bool apply_test(std::string_view name, const Value& input, const Arguments& arguments,
                Budget& budget);

using Filter = Value (*)(const Value& input, const Arguments& arguments, Budget& budget);
// The parts of the table; null: none of that name.
Filter text_filter(std::string_view name);
Filter list_filter(std::string_view name);
Filter number_filter(std::string_view name);

}  // namespace megalith::chat

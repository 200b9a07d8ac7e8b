// SPDX-License-Identifier: Apache-2.0
// The methods of texts, dicts, lists and tuples.
#pragma once

#include <optional>
#include <string_view>

#include "chat_values/value.h"

namespace megalith::chat {

/// The method of an object, bound to it; nothing if Python has none of that name. An undefined
/// value for one that the sandbox forbids (`append`), a Fault for one that is not supported.
std::optional<Value> method_of(const Value& object, std::string_view name, Budget& budget);

/// A method of a text: name and work.
using Method = Value (*)(const Value& self, const Arguments& arguments, Budget& budget);
Method text_method(std::string_view name);  // null: none

}  // namespace megalith::chat

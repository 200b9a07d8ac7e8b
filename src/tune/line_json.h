// SPDX-License-Identifier: Apache-2.0
// What the forms of lines share: fields of a JSON object, and messages of a chat. UserErrors are
// worded as the end of a sentence about the line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "tune/example_line.h"

namespace megalith::tune {

/// UTF-8's, which some editors put before the first line of a file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

using LineJson = nlohmann::ordered_json;

/// The object that a line is.
LineJson parse_line(std::string_view text);
/// As that of example_line.h, of a line that is parsed.
ExampleLine parse_example_line(const LineJson& line, const FieldTemplate& fields, bool only);
/// Null when it is absent or null.
const LineJson* member(const LineJson& object, const char* key);
/// A text, or a number or a truth value as one.
std::string text_of(const LineJson& object, const std::string& key);

/// Appends a message; whether it is learned is its "weight" (an assistant's: 1 unless given).
void add_message(const LineJson& message, bool may_be_learned, ChatExample& chat);
void add_messages(const LineJson& list, const char* key, bool may_be_learned, ChatExample& chat);
/// UserError unless something of the chat is learned.
ChatExample require_answer(ChatExample chat);

}  // namespace megalith::tune

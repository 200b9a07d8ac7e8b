// SPDX-License-Identifier: Apache-2.0
// A line of a file of examples, whose form its keys tell:
//   {"messages": [...][, "tools": [...]]}      a chat, as OpenAI's tuning takes it; an assistant's
//                                              turn of "weight": 0 is not learned
//   {"conversations": [{"from", "value"}, ...][, "system", "mask"]}      NeMo's chat
//   {"prompt": [messages], "completion": [messages]}      a chat whose completion is learned
//   {"prompt": "...", "completion": "..."}
//   {"input": "...", "output": "..."}, or the fields of a template; other fields are passed over,
//                                              but "ids" in place of these is refused
// Any program may have written it, so nothing in it is trusted.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tune/field_template.h"

namespace megalith::tune {

/// A chat as chat::Conversation reads it, and which of its messages are to be learned.
struct ChatExample {
  std::vector<std::string> messages;  // JSON objects
  std::string tools;                  // a JSON list; empty: none
  std::vector<bool> learned;          // of each message
};
using ExampleLine = std::variant<ChatExample, PromptAndAnswer>;

/// `fields`: the form of lines that are neither chats nor prompt and completion, or where it is
/// `only`, of all. The UserError is worded as the end of a sentence about the line: "has no ...".
ExampleLine parse_example_line(std::string_view line, const FieldTemplate& fields, bool only);

}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
// A line of a file of preferences: a prompt, the answer that was chosen, and the one that was
// rejected, as TRL has them:
//   {"prompt": "...", "chosen": "...", "rejected": "..."}
//   {"prompt": [messages], "chosen": [messages], "rejected": [messages][, "tools": [...]]}
//   {"chosen": ..., "rejected": ...}      both from the beginning on, which is the prompt
// Where answers are messages and the prompt beside them is a text, as in UltraFeedback, that says
// the same again and is passed over. Any program may have written a line, so nothing in it is
// trusted.
#pragma once

#include <string_view>

#include "tune/example_line.h"

namespace megalith::tune {

/// Two answers to one prompt; of messages those behind it are learned that are the assistant's.
struct PreferenceLine {
  ExampleLine chosen, rejected;
};

/// The UserError is worded as the end of a sentence about the line: "has no ...".
PreferenceLine parse_preference_line(std::string_view line);

}  // namespace megalith::tune

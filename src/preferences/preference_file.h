// SPDX-License-Identifier: Apache-2.0
// Files of preferences as token ids.
#pragma once

#include "preferences/preference_line.h"
#include "tune/example_file.h"

namespace megalith::tune {

/// Two answers behind the same prompt: each a text of its own.
struct Preference {
  Example chosen, rejected;
  /// Of both sequences.
  int64_t tokens() const { return chosen.tokens() + rejected.tokens(); }
};

/// False when a pair is left out: of more tokens than the rule has, or truncated, with nothing left
/// to learn or to prefer. Truncated is the end of the longer answer, and where that is not enough
/// of both, which are then equally long. UserError, worded as the end of a sentence about the line,
/// when the rule refuses it.
bool keep_length(Preference& pair, const LengthRule& rule, ExampleCounts& counts);

/// Of all lines of the files that are not blank, in order, as far as `rule` keeps them; what
/// `form` says of fields is not read. UserError as of read_examples.
std::vector<Preference> read_preferences(const std::vector<std::string>& files,
                                         const ExampleForm& form, const LengthRule& rule,
                                         ExampleCounts& counts);

}  // namespace megalith::tune

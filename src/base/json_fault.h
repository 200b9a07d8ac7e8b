// SPDX-License-Identifier: Apache-2.0
// JSON from outside is judged before anything is built from it: a tree of a hundred thousand open
// brackets overflows the stack of whoever copies or prints it, and of two values under one key a
// reader silently takes one. One pass over the text (nlohmann's events), memory of the open keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace megalith {

/// What is wrong with a document, as the end of a sentence about it ("is not JSON: ...", "is nested
/// too deeply (more than 64 levels)", "names 'x' twice"); nothing if it is sound.
std::optional<std::string> json_fault(std::string_view text, size_t most_levels = 64);

}  // namespace megalith

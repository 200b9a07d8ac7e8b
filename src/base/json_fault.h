// SPDX-License-Identifier: Apache-2.0
// JSON from outside is checked before a tree is built from it: copying or printing a hundred
// thousand nested brackets overflows the stack, and of two values under one key a parser silently
// keeps one. One pass over the text (nlohmann's events); memory grows with the open keys only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace megalith {

/// What is wrong with a document, worded as the end of a sentence ("is not JSON: ...", "is nested
/// too deeply (more than 64 levels)", "names 'x' twice"); nothing if it is sound.
std::optional<std::string> json_fault(std::string_view text, size_t most_levels = 64);

}  // namespace megalith

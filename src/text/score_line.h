// SPDX-License-Identifier: Apache-2.0
// A line that a model is to score: {"text": ...} or {"ids": [...]}. Any program may have written
// it, so nothing in it is trusted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace megalith::text {

/// The text, or the ids (each from 0 to 2^31 - 1), which win if both are given. Other keys are
/// ignored. The UserError is worded as the end of a sentence about the line: "has neither ...".
std::variant<std::string, std::vector<int32_t>> parse_score_line(std::string_view line);

}  // namespace megalith::text

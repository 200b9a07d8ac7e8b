// SPDX-License-Identifier: Apache-2.0
// A line that a model is to read: {"text": ...[, "pair": ...]} or {"ids": [...][, "type_ids":
// [...]]}, with "target" or "target_ids" what an encoder-decoder is to write. Any program may have
// written it, so nothing in it is trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::text {

struct ScoreLine {
  std::optional<std::string> text;  // absent: there are ids
  std::optional<std::string> pair;  // a second text, beside the first
  std::vector<int32_t> ids;         // each from 0 to 2^31 - 1
  std::vector<int32_t> type_ids;    // of each id's token; may be none
  std::optional<std::string> target;
  std::optional<std::vector<int32_t>> target_ids;
};

/// Ids win over texts if both are given. Other keys are ignored. The UserError is worded as the end
/// of a sentence about the line: "has neither ...".
ScoreLine parse_score_line(std::string_view line);

}  // namespace megalith::text

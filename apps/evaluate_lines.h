// SPDX-License-Identifier: Apache-2.0
// The lines of JSON that `evaluate` reads, each judged before the first is worked on: a bad line
// leaves no partial output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "adapters/prompt_marks.h"
#include "base/function_ref.h"
#include "inference/sequence_reader.h"
#include "store/model_source.h"

namespace megalith::apps {

/// Calls `judge` with every line of the file; its UserError is given the place in the file.
void for_each_line(const std::string& input, FunctionRef<void(std::string_view line)> judge);

/// {"text"[, "pair"]} or {"ids"[, "type_ids"]} as the model reads it, with the special tokens that
/// the tokenizer adds; with virtual tokens in place of `marks`, where they are given.
inference::Reading reading_of_line(std::string_view line, const store::ModelSource& source,
                                   const adapters::PromptMarks* marks = nullptr);

/// What an encoder-decoder is asked: its encoder reads `ids` and `target` is scored, to its end.
struct TargetReading {
  std::vector<int32_t> ids, target;
};
/// {"text" | "ids", "target" | "target_ids"}; marks as above, of the text.
TargetReading target_of_line(std::string_view line, const store::ModelSource& source,
                             const adapters::PromptMarks* marks = nullptr);

/// Of every line; each can be read by the model.
std::vector<inference::Reading> readings_of(const store::ModelSource& source,
                                            const std::string& input);

}  // namespace megalith::apps

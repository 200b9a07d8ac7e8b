// SPDX-License-Identifier: Apache-2.0
// Tests only: a byte-level tokenizer with a mask token.
#pragma once

#include "text/tokenizer_fixture.h"

namespace megalith::objectives {

/// Bytes 0 to 255, "th", "the", " the" (258), `<|endoftext|>` (259) and `[MASK]` (260).
inline text::Tokenizer masking_tokenizer() {
  nlohmann::json json = text::small_tokenizer({{"t", "h"}, {"th", "e"}, {" ", "the"}});
  nlohmann::json mask = json["added_tokens"][0];
  mask["id"] = 260;
  mask["content"] = "[MASK]";
  json["added_tokens"].push_back(mask);
  return text::parse(json);
}
constexpr int32_t kEnd = 259, kMask = 260, kOrdinary = 259;  // ids 0 to 258 are ordinary

}  // namespace megalith::objectives

// SPDX-License-Identifier: Apache-2.0
// What stands around one text, or around and between two: a row of special tokens and texts.
#pragma once

#include <cstdint>
#include <vector>

namespace megalith::text {

struct TemplatePiece {
  enum class Part { token, text_a, text_b };
  Part part = Part::token;
  int32_t type_id = 0;  // of all its tokens
  int32_t id = -1;      // of a special token, which only an encoding with special tokens has
};

/// Without a file's word: the texts alone, of the types 0 and 1.
struct PostProcessor {
  std::vector<TemplatePiece> single{{TemplatePiece::Part::text_a, 0, -1}};
  std::vector<TemplatePiece> pair{{TemplatePiece::Part::text_a, 0, -1},
                                  {TemplatePiece::Part::text_b, 1, -1}};
};

}  // namespace megalith::text

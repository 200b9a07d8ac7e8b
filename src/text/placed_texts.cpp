// SPDX-License-Identifier: Apache-2.0
#include "text/placed_texts.h"

#include "text/tokenizer_data.h"

namespace megalith::text {

PlacedTexts place_texts(const Tokenizer& tokenizer, std::span<const int32_t> first,
                        std::optional<std::span<const int32_t>> second) {
  const PostProcessor& post_processor = tokenizer.data().post_processor;
  PlacedTexts placed;
  std::vector<int32_t>& ids = placed.encoding.ids;
  for (const TemplatePiece& piece : second ? post_processor.pair : post_processor.single) {
    if (piece.part == TemplatePiece::Part::token) {
      ids.push_back(piece.id);
    } else {
      const bool is_first = piece.part == TemplatePiece::Part::text_a;
      (is_first ? placed.first_begin : placed.second_begin) = static_cast<int64_t>(ids.size());
      const std::span<const int32_t> text = is_first ? first : *second;
      ids.insert(ids.end(), text.begin(), text.end());
    }
    placed.encoding.type_ids.resize(ids.size(), piece.type_id);
  }
  return placed;
}

}  // namespace megalith::text

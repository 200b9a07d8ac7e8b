// SPDX-License-Identifier: Apache-2.0
#include "data/document_rows.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::data {
namespace {

/// The first `size` tokens of a piece, which loses them.
Piece take(Piece& piece, int64_t size) {
  Piece head{{piece.tokens.begin, piece.tokens.begin + size}, true};
  if (size == piece.tokens.size()) head.followed = piece.followed;
  piece.tokens.begin += size;
  return head;
}

/// None longer than `length`; the longest first.
std::vector<Piece> by_length(std::span<const Piece> parts, int64_t length) {
  std::vector<Piece> pieces;
  for (Piece part : parts)
    while (part.tokens.size() > 0)
      pieces.push_back(take(part, std::min(part.tokens.size(), length)));
  std::ranges::stable_sort(pieces, std::ranges::greater{},
                           [](const Piece& piece) { return piece.tokens.size(); });
  return pieces;
}

}  // namespace

std::vector<Piece> document_parts(const IndexedDataset& dataset, Range tokens) {
  std::vector<Piece> parts;
  int64_t document = dataset.document_of(tokens.begin);
  for (int64_t begin = tokens.begin; begin < tokens.end;) {
    const int64_t document_end = dataset.document_begin(++document);
    const int64_t end = std::min(document_end, tokens.end);
    if (end == begin) continue;  // an empty document
    parts.push_back({{begin, end}, end < document_end});
    begin = end;
  }
  return parts;
}

std::vector<std::vector<Piece>> packed_rows(std::span<const Piece> parts, int64_t rows,
                                            int64_t length) {
  std::vector<std::vector<Piece>> packed(static_cast<size_t>(rows));
  std::vector<int64_t> room(packed.size(), length);
  std::vector<Piece> left;
  const auto put = [&](const Piece& piece, size_t row) {
    packed[row].push_back(piece);
    room[row] -= piece.tokens.size();
  };
  for (const Piece& piece : by_length(parts, length)) {
    const auto fits =
        std::ranges::find_if(room, [&](int64_t tokens) { return tokens >= piece.tokens.size(); });
    if (fits == room.end()) {
      left.push_back(piece);
    } else {
      put(piece, static_cast<size_t>(fits - room.begin()));
    }
  }
  for (Piece& piece : left) {
    while (piece.tokens.size() > 0) {
      const auto most = std::ranges::max_element(room);
      MEGA_CHECK(*most > 0, "more tokens than {} rows of {} have", rows, length);
      put(take(piece, std::min(*most, piece.tokens.size())),
          static_cast<size_t>(most - room.begin()));
    }
  }
  for (std::vector<Piece>& row : packed)
    std::ranges::sort(row, {}, [](const Piece& piece) { return piece.tokens.begin; });
  return packed;
}

std::vector<Piece> document_row(const IndexedDataset& dataset, int64_t begin, int64_t rows,
                                int64_t length, int64_t row) {
  const int64_t first = row - row % kGroupRows;
  const int64_t of_group = std::min(kGroupRows, rows - first);
  const Range tokens{begin + first * length, begin + (first + of_group) * length};
  return packed_rows(document_parts(dataset, tokens), of_group,
                     length)[static_cast<size_t>(row - first)];
}

}  // namespace megalith::data

// SPDX-License-Identifier: Apache-2.0
// Samples of whole documents, without a table over the corpus
// (docs/design/0013-natural-lengths.md). A corpus is cut into groups of kGroupRows rows of S tokens
// each (the last may have fewer), and the documents of a group are packed into its rows so that
// each row is full: a row is a function of its group's document ends alone, and an epoch has as
// many samples as one of consecutive tokens.
//
// What is packed are the parts of documents within the group, those of more than S tokens cut into
// runs of S. The longest comes first, of equal ones the earlier, and goes to the first row that has
// room for all of it. Those for which no row has are cut at the end, each into the rows with the
// most room, of equal ones the first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "data/indexed.h"

namespace megalith::data {

inline constexpr int64_t kGroupRows = 64;

/// Consecutive tokens of a corpus that are one sequence of a sample.
struct Piece {
  Range tokens;
  bool followed = false;  // by a token of the same document
};

/// The rows that `parts` make, which have rows * length tokens together; pieces of a row in the
/// order of the corpus. Parts are not empty and lie one behind another.
std::vector<std::vector<Piece>> packed_rows(std::span<const Piece> parts, int64_t rows,
                                            int64_t length);

/// The parts of documents that some tokens are, in their order.
std::vector<Piece> document_parts(const IndexedDataset& dataset, Range tokens);

/// The pieces of row `row` of the `rows` that the tokens from `begin` on make.
std::vector<Piece> document_row(const IndexedDataset& dataset, int64_t begin, int64_t rows,
                                int64_t length, int64_t row);

}  // namespace megalith::data

// SPDX-License-Identifier: Apache-2.0
// Weight gradients add up tokens in pairs (linear.h), and pairs begin anew with
// every sequence: so neither the micro-batch nor the documents beside it change a bit. What works
// on rows of a batch piece by piece cuts no pair.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megalith::kernels {

/// The last row of a batch, at most `end`, where a piece may end.
int64_t end_of_pairs(std::span<const int32_t> cu_seqlens, int64_t end);

/// The sequences' parts in rows [begin, end), counted from `begin`: cu_runs of the piece.
std::vector<int32_t> runs_of_rows(std::span<const int32_t> cu_seqlens, int64_t begin, int64_t end);

}  // namespace megalith::kernels

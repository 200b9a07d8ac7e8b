// SPDX-License-Identifier: Apache-2.0
// Examples into samples of S tokens: whole ones, each a sequence of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megalith::tune {

/// Numbers of the examples of each sample, in increasing order; every example is in one. The
/// longest comes first, of equal ones the earlier, and goes where the least room is left beside it,
/// of equal places to the first (best fit decreasing: at most 11/9 of the fewest samples, Johnson
/// 1973).
/// `lengths` are from 1 to `length`. A function of its arguments alone.
std::vector<std::vector<int64_t>> packed_samples(std::span<const int64_t> lengths, int64_t length);

}  // namespace megalith::tune

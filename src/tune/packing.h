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

/// Tokens of an example, or of a sample, on both sides of an encoder-decoder.
struct SideLengths {
  int64_t decoder = 0;
  int64_t encoder = 0;
};
/// The same where both sides have to fit. Examples go in the order of their larger side, as a part
/// of the sample's, largest first; the room of a sample is that of its fuller side. An example goes
/// to the first of the 64 fullest samples with room for its smaller part in which both sides fit,
/// else to the fullest whose sides both have room for its larger part. A sample has fewer examples
/// than decoder tokens, since what fills it is a sequence too. Both sides of `length` are at least
/// 2, and each side of an example is from 1 to that of `length`.
std::vector<std::vector<int64_t>> packed_samples(std::span<const SideLengths> lengths,
                                                 const SideLengths& length);

}  // namespace megalith::tune

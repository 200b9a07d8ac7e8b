// SPDX-License-Identifier: Apache-2.0
// Random numbers as a function of meaning, never of order: a draw is Philox4x32-10 (Salmon et al.
// 2011) of a 64-bit key and a 128-bit counter. The key says *what* is drawn (seed and name, or
// seed, step, layer and site), the counter *for which element*. There is no state, so every shard,
// thread and recomputation draws the same number for the same element.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace megalith {

using PhiloxBlock = std::array<uint32_t, 4>;

/// Ten rounds. Known answers are in random_test.cpp (the Random123 vectors).
PhiloxBlock philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

/// A key from a seed and a name (XXH3-64 of the name, mixed with the seed).
uint64_t random_key(uint64_t seed, std::string_view name);
/// A key derived from another one and an integer (a step, a layer); chains give (seed, step, layer,
/// site).
uint64_t random_key(uint64_t key, uint64_t value);

/// (0, 1): (bits + 0.5) / 2^32, never 0 or 1.
double uniform_open(uint32_t bits);

/// Standard normal draw number `element` under `key`: inverse normal distribution (Wichura 1988,
/// AS 241, PPND16) of a 53-bit uniform, in double, with the logarithm of math/elementary.h: equal
/// bits on every CPU. Two elements share one Philox block.
double normal(uint64_t key, uint64_t element);

/// A permutation of [0, n), n < 2^62, evaluated at one point without a table: a keyed Feistel
/// network over the smallest even-bit domain >= n with cycle walking. Epochs use one key each.
uint64_t permute(uint64_t key, uint64_t n, uint64_t index);

}  // namespace megalith

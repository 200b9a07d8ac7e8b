// SPDX-License-Identifier: Apache-2.0
#include "metrics/python_random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "base/check.h"

namespace megalith::metrics {

void PythonRandom::begin(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < kState; ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

// Python seeds with an array of words, the least first, even where it is one word.
PythonRandom::PythonRandom(uint64_t seed) {
  std::vector<uint32_t> key{static_cast<uint32_t>(seed)};
  if (seed >> 32 != 0) key.push_back(static_cast<uint32_t>(seed >> 32));
  begin(19650218U);
  size_t i = 1, j = 0;
  const auto mixed = [&](uint32_t factor) {
    return state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * factor);
  };
  const auto advance = [&] {
    if (++i < kState) return;
    state_[0] = state_[kState - 1];
    i = 1;
  };
  for (size_t k = std::max(kState, key.size()); k > 0; --k) {
    state_[i] = mixed(1664525U) + key[j] + static_cast<uint32_t>(j);
    advance();
    if (++j == key.size()) j = 0;
  }
  for (size_t k = kState - 1; k > 0; --k) {
    state_[i] = mixed(1566083941U) - static_cast<uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000U;
}

void PythonRandom::refill() {
  constexpr size_t kAhead = 397;
  for (size_t i = 0; i < kState; ++i) {
    const uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % kState] & 0x7fffffffU);
    state_[i] = state_[(i + kAhead) % kState] ^ (y >> 1) ^ ((y & 1U) != 0 ? 0x9908b0dfU : 0U);
  }
  used_ = 0;
}

uint32_t PythonRandom::next() {
  if (used_ == kState) refill();
  uint32_t y = state_[used_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

double PythonRandom::uniform() {
  const uint32_t high = next() >> 5, low = next() >> 6;
  return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0);
}

uint32_t PythonRandom::below(uint32_t n) {
  MEGA_CHECK(n > 0);
  const int unused = std::countl_zero(n);
  while (true) {
    const uint32_t drawn = next() >> unused;
    if (drawn < n) return drawn;
  }
}

// Python takes one of two ways by sizes: from a list that shrinks, or anew until it is not there.
std::vector<uint32_t> PythonRandom::sample(uint32_t n, uint32_t k) {
  MEGA_CHECK(k <= n);
  double list_size = 21;
  if (k > 5) list_size += std::pow(4.0, std::ceil(std::log(k * 3.0) / std::log(4.0)));
  std::vector<uint32_t> result;
  if (n <= list_size) {
    std::vector<uint32_t> pool(n);
    std::iota(pool.begin(), pool.end(), 0U);
    for (uint32_t i = 0; i < k; ++i) {
      const uint32_t j = below(n - i);
      result.push_back(pool[j]);
      pool[j] = pool[n - i - 1];
    }
    return result;
  }
  std::set<uint32_t> selected;
  for (uint32_t i = 0; i < k; ++i) {
    uint32_t j = below(n);
    while (!selected.insert(j).second) j = below(n);
    result.push_back(j);
  }
  return result;
}

std::vector<uint32_t> PythonRandom::shuffled(uint32_t n) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  for (uint32_t i = n; i-- > 1;) std::swap(order[i], order[below(i + 1)]);
  return order;
}

void PythonRandom::choices(uint32_t n, std::vector<uint32_t>& drawn) {
  for (uint32_t& one : drawn) one = static_cast<uint32_t>(uniform() * n);
}

}  // namespace megalith::metrics

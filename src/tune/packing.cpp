// SPDX-License-Identifier: Apache-2.0
#include "tune/packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"

namespace megalith::tune {

std::vector<std::vector<int64_t>> packed_samples(std::span<const int64_t> lengths, int64_t length) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length_of = [&](int64_t example) { return lengths[static_cast<size_t>(example)]; };
  std::ranges::stable_sort(order, std::ranges::greater{}, length_of);
  std::vector<std::vector<int64_t>> samples;
  std::set<std::pair<int64_t, int64_t>> room;  // tokens left, sample
  for (const int64_t example : order) {
    const int64_t tokens = length_of(example);
    MEGA_CHECK(tokens >= 1 && tokens <= length, "an example of {} tokens in samples of {}", tokens,
               length);
    int64_t left = length, sample = std::ssize(samples);
    if (const auto best = room.lower_bound({tokens, 0}); best != room.end()) {
      left = best->first;
      sample = best->second;
      room.erase(best);
    } else {
      samples.emplace_back();
    }
    samples[static_cast<size_t>(sample)].push_back(example);
    if (left > tokens) room.emplace(left - tokens, sample);
  }
  for (std::vector<int64_t>& sample : samples) std::ranges::sort(sample);
  return samples;
}

}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
// Products are formed in 128 bits: n < 2^62 and weights < 2^62 stay below 2^124.
#include "data/blend.h"

#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "base/integer.h"

namespace megalith::data {
namespace {

constexpr int kWeightBits = 46;
constexpr int64_t kLimit = int64_t{1} << 62;

/// floor(n * part / whole), n < 2^62, 0 <= part <= whole < 2^62.
int64_t share(int64_t n, int64_t part, int64_t whole) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<int64_t>(static_cast<Wide>(n) * static_cast<Wide>(part) /
                              static_cast<Wide>(whole));
}

}  // namespace

Blend::Blend(std::span<const int64_t> weights) {
  sums_.push_back(0);
  for (const int64_t weight : weights) {
    MEGA_CHECK_GE(weight, 0);
    const auto sum = checked_add(sums_.back(), weight);
    MEGA_CHECK(sum && *sum < kLimit, "the sum of the weights is too large");
    sums_.push_back(*sum);
  }
  MEGA_CHECK_GT(sums_.back(), 0);
}

Blend Blend::from_weights(std::span<const double> weights) {
  double largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      throw UserError("weight {} of corpus {} is not a number >= 0", weights[i], i);
    }
    largest = std::max(largest, weights[i]);
  }
  if (largest == 0) throw UserError("the weights of the corpora are all 0; give one a share");
  if (weights.size() > 65535) throw UserError("{} corpora; at most 65535", weights.size());
  const int shift = kWeightBits - 1 - std::ilogb(largest);
  std::vector<int64_t> scaled;
  for (const double weight : weights) {
    const int64_t rounded = std::llround(std::ldexp(weight, shift));
    scaled.push_back(weight > 0 && rounded == 0 ? 1 : rounded);
  }
  return Blend(scaled);
}

Blend::Choice Blend::choose(int64_t n) const {
  MEGA_CHECK(n >= 0 && n < kLimit, "sample {}", n);
  size_t low = 0;
  size_t high = sums_.size() - 1;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    const int64_t left = sums_[middle] - sums_[low];
    const int64_t whole = sums_[high] - sums_[low];
    const int64_t before = share(n, left, whole);
    if (share(n + 1, left, whole) > before) {
      n = before;
      high = middle;
    } else {
      n -= before;
      low = middle;
    }
  }
  return {static_cast<int64_t>(low), n};
}

int64_t Blend::count(int64_t corpus, int64_t n) const {
  MEGA_CHECK(corpus >= 0 && corpus < num_corpora() && n >= 0 && n < kLimit, "corpus {}, {}", corpus,
             n);
  size_t low = 0;
  size_t high = sums_.size() - 1;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    const int64_t whole = sums_[high] - sums_[low];
    if (whole == 0) return 0;
    const int64_t left = share(n, sums_[middle] - sums_[low], whole);
    if (static_cast<size_t>(corpus) < middle) {
      n = left;
      high = middle;
    } else {
      n -= left;
      low = middle;
    }
  }
  return n;
}

}  // namespace megalith::data

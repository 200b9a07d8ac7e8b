// SPDX-License-Identifier: Apache-2.0
#include "objectives/masking.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "math/random.h"
#include "objectives/draws.h"

namespace megalith::objectives {
namespace {

/// A word, or a single token.
struct Candidate {
  uint64_t order = 0;  // the smallest is chosen first
  int64_t begin = 0;
  int64_t length = 1;
};

PhiloxBlock draw(uint64_t key, int64_t position) {
  return philox(key, static_cast<uint64_t>(position), 0);
}

/// In the order of choosing. A special token ends a word.
std::vector<Candidate> candidates(const MaskableTokens& tokens, uint64_t key, int64_t longest,
                                  std::span<const int32_t> ids) {
  std::vector<Candidate> found;
  bool open = false;
  for (int64_t t = 0; t < std::ssize(ids); ++t) {
    const int32_t id = ids[static_cast<size_t>(t)];
    if (!tokens.is_ordinary(id)) {
      open = false;
    } else if (open && !tokens.begins_word(id) && found.back().length < longest) {
      ++found.back().length;
    } else {
      const PhiloxBlock block = draw(key, t);
      found.push_back({block[0] | uint64_t{block[1]} << 32, t, 1});
      open = true;
    }
  }
  std::ranges::sort(found, {}, [](const Candidate& c) { return std::tie(c.order, c.begin); });
  return found;
}

class Corruption {
 public:
  Corruption(const MaskableTokens& tokens, const MaskingOptions& options, uint64_t key)
      : tokens_(tokens),
        key_(key),
        masked_(threshold(options.mask_share)),
        masked_or_random_(threshold(options.mask_share + options.random_share)) {}

  /// What stands at a predicted position instead of `id`.
  int32_t at(int64_t position, int32_t id) const {
    const PhiloxBlock block = draw(key_, position);
    if (block[2] < masked_) return tokens_.mask();
    if (block[2] >= masked_or_random_) return id;
    const auto& from = tokens_.ordinary();
    return from[static_cast<size_t>((uint64_t{block[3]} * from.size()) >> 32)];
  }

 private:
  const MaskableTokens& tokens_;
  uint64_t key_;
  uint64_t masked_, masked_or_random_;
};

}  // namespace

int64_t most_predicted(double rate, int64_t ordinary) {
  const double wanted = std::floor(rate * static_cast<double>(ordinary) + 0.5);
  return std::min(ordinary, std::max<int64_t>(1, static_cast<int64_t>(wanted)));
}

void mask_sample(const MaskableTokens& tokens, const MaskingOptions& options, uint64_t key,
                 std::span<int32_t> ids, std::span<int32_t> targets, std::span<float> weights) {
  MEGA_CHECK(ids.size() == targets.size() && ids.size() == weights.size(), "{} ids", ids.size());
  std::ranges::fill(targets, kNoTarget);
  std::ranges::fill(weights, 0.0f);
  const auto ordinary =
      std::ranges::count_if(ids, [&](int32_t id) { return tokens.is_ordinary(id); });
  int64_t left = most_predicted(options.rate, ordinary);
  const Corruption corruption(tokens, options, key);
  for (const Candidate& chosen : candidates(tokens, key, left, ids)) {
    if (left == 0) break;
    if (chosen.length > left) continue;
    left -= chosen.length;
    for (int64_t t = chosen.begin; t < chosen.begin + chosen.length; ++t) {
      const auto at = static_cast<size_t>(t);
      targets[at] = ids[at];
      weights[at] = 1;
      ids[at] = corruption.at(t, ids[at]);
    }
  }
}

}  // namespace megalith::objectives

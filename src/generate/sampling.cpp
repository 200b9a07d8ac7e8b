// SPDX-License-Identifier: Apache-2.0
#include "generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "math/elementary_double.h"
#include "math/random.h"

namespace megalith::generate {
namespace {

/// Indices of the logits that may be drawn: most likely first (equals by id) when something is cut,
/// else in order of id.
std::vector<int32_t> candidates(std::span<const float> logits, int64_t top_k, bool sorted) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  if (!sorted) return order;
  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto count =
      top_k > 0 ? std::min<size_t>(static_cast<size_t>(top_k), order.size()) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                    before);
  order.resize(count);
  return order;
}

}  // namespace

void check(const SamplingOptions& o) {
  if (!(o.temperature >= 0 && o.temperature <= 100))
    throw UserError("--temperature {} is not in [0, 100]", o.temperature);
  if (o.top_k < 0) throw UserError("--top-k {} is negative; 0 means all", o.top_k);
  if (!(o.top_p > 0 && o.top_p <= 1)) throw UserError("--top-p {} is not in (0, 1]", o.top_p);
}

Choice choose_token(std::span<const float> logits, const SamplingOptions& options,
                    int64_t position) {
  MEGA_CHECK(!logits.empty());
  const auto best = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  const auto max = static_cast<double>(logits[static_cast<size_t>(best)]);
  const double lse = max + elementary::log(elementary::sum_exp(logits, max));
  if (!std::isfinite(lse))
    throw SystemError("the model's logits are not finite; its weights are damaged");
  const auto chosen = [&](int32_t id) {
    return Choice{id, static_cast<double>(logits[static_cast<size_t>(id)]) - lse};
  };
  if (options.temperature == 0) return chosen(best);

  const std::vector<int32_t> order =
      candidates(logits, options.top_k, options.top_k > 0 || options.top_p < 1);
  std::vector<double> weight(order.size());
  double total = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    weight[i] = elementary::exp((static_cast<double>(logits[static_cast<size_t>(order[i])]) - max) /
                                options.temperature);
    total += weight[i];
  }
  // top-p: the shortest head of the list that holds that share.
  size_t kept = order.size();
  if (options.top_p < 1) {
    double sum = 0;
    for (kept = 0; kept < order.size() && sum < options.top_p * total; ++kept) sum += weight[kept];
    total = sum;
  }
  const PhiloxBlock bits =
      philox(random_key(options.seed, "sampling"), static_cast<uint64_t>(position), 0);
  double left = uniform_open(bits[0]) * total;
  for (size_t i = 0; i + 1 < kept; ++i) {
    left -= weight[i];
    if (left < 0) return chosen(order[i]);
  }
  return chosen(order[kept - 1]);
}

}  // namespace megalith::generate

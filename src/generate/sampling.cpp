// SPDX-License-Identifier: Apache-2.0
#include "generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "generate/penalties.h"
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

/// Tokens that may be drawn, and e^(logit / temperature) of each against the largest.
struct Candidates {
  std::vector<int32_t> ids;
  std::vector<double> weights;

  double total() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
  void keep_first(size_t count) {
    ids.resize(count);
    weights.resize(count);
  }
};

/// The shortest head of the list that holds that share.
void cut_top_p(double top_p, Candidates& c) {
  const double total = c.total();
  double sum = 0;
  size_t kept = 0;
  for (; kept < c.ids.size() && sum < top_p * total; ++kept) sum += c.weights[kept];
  c.keep_first(kept);
}

void cut_min_p(double min_p, Candidates& c) {
  const double least = min_p * c.weights.front();
  const auto below = [&](double weight) { return weight < least; };
  c.keep_first(static_cast<size_t>(std::ranges::find_if(c.weights, below) - c.weights.begin()));
}

/// Those whose surprise -log p is nearest to the entropy, until they hold that share.
void cut_typical(double typical_p, Candidates& c) {
  const double total = c.total();
  std::vector<double> surprise;
  double entropy = 0;
  for (const double weight : c.weights) {
    surprise.push_back(weight > 0 ? -elementary::log(weight / total)
                                  : std::numeric_limits<double>::infinity());
    if (weight > 0) entropy += weight / total * surprise.back();
  }
  std::vector<size_t> order(c.ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return std::abs(surprise[i] - entropy); });
  double sum = 0;
  size_t kept = 0;
  for (; kept < order.size() && sum < typical_p * total; ++kept) sum += c.weights[order[kept]];
  order.resize(kept);
  std::ranges::sort(order);
  Candidates typical;
  for (const size_t i : order) {
    typical.ids.push_back(c.ids[i]);
    typical.weights.push_back(c.weights[i]);
  }
  c = std::move(typical);
}

/// Of logits whose largest is `max`.
Candidates candidates_of(std::span<const float> logits, double max, const SamplingOptions& o) {
  const bool cuts = o.top_k > 0 || o.top_p < 1 || o.min_p > 0 || o.typical_p < 1;
  Candidates c{candidates(logits, o.top_k, cuts), {}};
  for (const int32_t id : c.ids) {
    c.weights.push_back(elementary::exp(
        (static_cast<double>(logits[static_cast<size_t>(id)]) - max) / o.temperature));
  }
  if (o.top_p < 1) cut_top_p(o.top_p, c);
  if (o.min_p > 0) cut_min_p(o.min_p, c);
  if (o.typical_p < 1) cut_typical(o.typical_p, c);
  return c;
}

int32_t draw(const Candidates& c, uint64_t seed, uint64_t position) {
  const PhiloxBlock bits = philox(random_key(seed, "sampling"), position, 0);
  double left = uniform_open(bits[0]) * c.total();
  int32_t possible = c.ids.front();  // what rounding leaves over goes to the last that can be
  for (size_t i = 0; i < c.ids.size(); ++i) {
    if (c.weights[i] == 0) continue;
    possible = c.ids[i];
    left -= c.weights[i];
    if (left < 0) break;
  }
  return possible;
}

int32_t most_likely(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

double at(std::span<const float> logits, int32_t id) {
  return static_cast<double>(logits[static_cast<size_t>(id)]);
}

/// log of the sum of e^logit.
double log_sum_exp(std::span<const float> logits) {
  MEGA_CHECK(!logits.empty());
  const double max = at(logits, most_likely(logits));
  const double lse = max + elementary::log(elementary::sum_exp(logits, max));
  if (!std::isfinite(lse))
    throw SystemError(
        "the model's logits are not finite: its weights are damaged, or its activations overflow "
        "f16; try --dtype f32 or bf16");
  return lse;
}

void keep_allowed(std::span<const uint64_t> allowed, std::span<float> logits) {
  for (size_t i = 0; !allowed.empty() && i < logits.size(); ++i)
    if ((allowed[i / 64] >> (i % 64) & 1) == 0) logits[i] = kBanned;
}

/// What is drawn from: empty for the logits as they are.
std::vector<float> moved_for(std::span<const float> logits, const SamplingOptions& options,
                             const Written& written, const NextToken& next) {
  std::vector<float> moved;
  if (!options.moves_logits() && next.allowed.empty() && next.banned.empty()) return moved;
  moved = moved_logits(logits, options, written);
  for (const int32_t id : next.banned)
    if (id >= 0 && id < std::ssize(moved)) moved[static_cast<size_t>(id)] = kBanned;
  keep_allowed(next.allowed, moved);
  if (std::isfinite(at(moved, most_likely(moved)))) return moved;
  if (next.allowed.empty()) return {};
  moved.assign(logits.begin(), logits.end());
  keep_allowed(next.allowed, moved);
  if (!std::isfinite(at(moved, most_likely(moved))))
    throw SystemError("no token that may come next has a finite logit");
  return moved;
}

void require(bool holds, const char* name, double value, const char* range) {
  if (!holds) throw UserError("--{} {} is not in {}", name, value, range);
}

}  // namespace

bool SamplingOptions::moves_logits() const {
  return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0 ||
         no_repeat_ngram > 0 || !logit_bias.empty() || !bad_words.empty();
}

void check(const SamplingOptions& o) {
  require(o.temperature >= 0 && o.temperature <= 100, "temperature", o.temperature, "[0, 100]");
  if (o.top_k < 0) throw UserError("--top-k {} is negative; 0 means all", o.top_k);
  require(o.top_p > 0 && o.top_p <= 1, "top-p", o.top_p, "(0, 1]");
  require(o.min_p >= 0 && o.min_p <= 1, "min-p", o.min_p, "[0, 1]");
  require(o.typical_p > 0 && o.typical_p <= 1, "typical-p", o.typical_p, "(0, 1]");
  require(o.repetition_penalty > 0 && o.repetition_penalty <= 100, "repetition-penalty",
          o.repetition_penalty, "(0, 100]");
  require(std::abs(o.presence_penalty) <= 100, "presence-penalty", o.presence_penalty,
          "[-100, 100]");
  require(std::abs(o.frequency_penalty) <= 100, "frequency-penalty", o.frequency_penalty,
          "[-100, 100]");
  if (o.no_repeat_ngram < 0)
    throw UserError("--no-repeat-ngram {} is negative; 0 means that any may come again",
                    o.no_repeat_ngram);
  for (const auto& [id, bias] : o.logit_bias)
    if (!std::isfinite(bias)) throw UserError("the bias {} of token {} is not finite", bias, id);
}

Choice choose_token(std::span<const float> logits, const SamplingOptions& options,
                    const Written& written, const NextToken& next) {
  const double lse = log_sum_exp(logits);
  const std::vector<float> moved = moved_for(logits, options, written, next);
  const std::span<const float> left = moved.empty() ? logits : std::span<const float>(moved);
  const int32_t best = most_likely(left);
  const int32_t id = options.temperature == 0
                         ? best
                         : draw(candidates_of(left, at(left, best), options), options.seed,
                                static_cast<uint64_t>(written.ids.size()));
  return {id, at(logits, id) - lse};
}

std::vector<ScoredChoice> best_tokens(std::span<const float> logits, int64_t count,
                                      const SamplingOptions& options, const Written& written,
                                      const NextToken& next) {
  const double lse = log_sum_exp(logits);
  std::vector<float> logprobs;
  for (const float logit : logits)
    logprobs.push_back(static_cast<float>(static_cast<double>(logit) - lse));
  const std::vector<float> moved = moved_for(logprobs, options, written, next);
  std::vector<ScoredChoice> best;
  for (const int32_t id :
       candidates(moved.empty() ? logits : std::span<const float>(moved), count, true)) {
    const double logprob = at(logits, id) - lse;
    const double score = moved.empty() ? logprob : at(moved, id);
    if (std::isfinite(score)) best.push_back({{id, logprob}, score});
  }
  return best;
}

std::vector<Choice> most_likely_tokens(std::span<const float> logits, int64_t count,
                                       size_t listed) {
  const double lse = log_sum_exp(logits);
  std::vector<Choice> choices;
  for (const int32_t id : candidates(logits.first(std::min(listed, logits.size())), count, true))
    choices.push_back({id, at(logits, id) - lse});
  return choices;
}

}  // namespace megalith::generate

// SPDX-License-Identifier: Apache-2.0
#include "generate/penalties.h"

#include <algorithm>

namespace megalith::generate {
namespace {

class Logits {
 public:
  explicit Logits(std::span<const float> logits) : values_(logits.begin(), logits.end()) {}
  /// Null for an id that cannot be chosen.
  float* find(int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < values_.size() ? &values_[static_cast<size_t>(id)]
                                                               : nullptr;
  }
  void ban(int32_t id) {
    if (float* const logit = find(id)) *logit = kBanned;
  }
  std::vector<float> take() { return std::move(values_); }

 private:
  std::vector<float> values_;
};

/// How often each token stands in a list.
std::map<int32_t, int64_t> counts_of(std::span<const int32_t> ids) {
  std::map<int32_t, int64_t> counts;
  for (const int32_t id : ids) ++counts[id];
  return counts;
}

void penalise(const SamplingOptions& o, const Written& written, Logits& logits) {
  if (o.repetition_penalty != 1) {
    const auto penalty = static_cast<float>(o.repetition_penalty);
    for (const auto& [id, count] : counts_of(written.ids)) {
      if (float* const logit = logits.find(id))
        *logit = *logit > 0 ? *logit / penalty : *logit * penalty;
    }
  }
  if (o.presence_penalty == 0 && o.frequency_penalty == 0) return;
  for (const auto& [id, count] : counts_of(written.ids.subspan(written.prompt))) {
    if (float* const logit = logits.find(id))
      *logit -=
          static_cast<float>(o.presence_penalty + o.frequency_penalty * static_cast<double>(count));
  }
}

/// Tokens that followed the last n - 1 before.
void ban_repeated(int64_t n, std::span<const int32_t> ids, Logits& logits) {
  if (n <= 0 || std::ssize(ids) < n) return;
  const auto before = static_cast<size_t>(n - 1);
  const auto last = ids.last(before);
  for (size_t at = 0; at + before < ids.size(); ++at)
    if (std::ranges::equal(ids.subspan(at, before), last)) logits.ban(ids[at + before]);
}

void ban_words(const std::vector<std::vector<int32_t>>& words, std::span<const int32_t> text,
               Logits& logits) {
  for (const std::vector<int32_t>& word : words) {
    if (word.empty() || word.size() - 1 > text.size()) continue;
    const auto begun = std::span(word).first(word.size() - 1);
    if (std::ranges::equal(text.last(begun.size()), begun)) logits.ban(word.back());
  }
}

}  // namespace

std::vector<float> moved_logits(std::span<const float> logits, const SamplingOptions& options,
                                const Written& written) {
  Logits moved(logits);
  penalise(options, written, moved);
  for (const auto& [id, bias] : options.logit_bias)
    if (float* const logit = moved.find(id)) *logit += static_cast<float>(bias);
  ban_repeated(options.no_repeat_ngram, written.ids, moved);
  ban_words(options.bad_words, written.ids.subspan(written.prompt), moved);
  return moved.take();
}

}  // namespace megalith::generate

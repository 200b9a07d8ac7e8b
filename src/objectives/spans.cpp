// SPDX-License-Identifier: Apache-2.0
#include "objectives/spans.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "math/random.h"

namespace megalith::objectives {
namespace {

int64_t rounded(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

/// Which words of a block order the gaps.
enum class Words : uint8_t { hidden = 0, kept = 2 };

/// Lengths of `parts` runs of at least one token each, `tokens` in all.
std::vector<int64_t> segments(uint64_t key, Words words, int64_t tokens, int64_t parts) {
  std::vector<std::pair<uint64_t, int64_t>> gaps;
  const auto word = static_cast<size_t>(words);
  for (int64_t g = 0; g + 1 < tokens; ++g) {
    const PhiloxBlock block = philox(key, static_cast<uint64_t>(g), 0);
    gaps.emplace_back(block[word] | uint64_t{block[word + 1]} << 32, g);
  }
  const auto cuts = gaps.begin() + (parts - 1);
  if (cuts != gaps.end()) std::nth_element(gaps.begin(), cuts, gaps.end());
  std::vector<int64_t> ends;
  for (auto gap = gaps.begin(); gap != cuts; ++gap) ends.push_back(gap->second + 1);
  std::ranges::sort(ends);
  ends.push_back(tokens);
  std::vector<int64_t> lengths;
  int64_t begin = 0;
  for (const int64_t end : ends) lengths.push_back(end - std::exchange(begin, end));
  return lengths;
}

/// Writes ids one after another.
class Writer {
 public:
  explicit Writer(std::span<int32_t> out) : out_(out) {}
  void put(int32_t id) { out_[at_++] = id; }
  void put(std::span<const int32_t> ids) {
    for (const int32_t id : ids) put(id);
  }
  bool full() const { return at_ == out_.size(); }

 private:
  std::span<int32_t> out_;
  size_t at_ = 0;
};

}  // namespace

SpanCounts counts_of_text(const SpanOptions& options, int64_t raw) {
  SpanCounts counts;
  counts.raw = raw;
  const int64_t wanted = rounded(static_cast<double>(raw) * options.rate);
  counts.hidden = std::clamp<int64_t>(wanted, 1, raw - 1);
  const double spans = static_cast<double>(counts.hidden) / options.mean_length;
  counts.spans = std::max<int64_t>(1, rounded(spans));
  return counts;
}

/// One token more of text is hidden, and maybe one span more, or kept: the encoder's side grows by
/// one token or by none, so that every length is met.
SpanCounts span_counts(const SpanOptions& options, int64_t encoder_length) {
  constexpr int64_t kShortest = 2;  // a token kept, one hidden
  int64_t fits = kShortest, longer = kShortest + 1;
  const auto does = [&](int64_t raw) {
    return counts_of_text(options, raw).encoder_length() <= encoder_length;
  };
  if (!does(fits)) {
    throw UserError("train.objective spans: {} tokens are too few for text, a sentinel and an end",
                    encoder_length);
  }
  while (does(longer)) longer *= 2;
  while (longer - fits > 1) {
    const int64_t middle = fits + (longer - fits) / 2;
    (does(middle) ? fits : longer) = middle;
  }
  const SpanCounts counts = counts_of_text(options, fits);
  MEGA_CHECK_EQ(counts.encoder_length(), encoder_length);
  if (counts.kept() < counts.spans) {
    throw UserError(
        "train.spans: rate {} and mean_length {} leave {} tokens between {} spans; set a lower "
        "rate, or longer spans",
        options.rate, options.mean_length, counts.kept(), counts.spans);
  }
  return counts;
}

void corrupt_sample(const SpanCounts& counts, const SpanTokens& tokens, uint64_t key,
                    std::span<const int32_t> text, const SpanSides& sides) {
  MEGA_CHECK_EQ(std::ssize(text), counts.raw);
  MEGA_CHECK(std::ssize(tokens.sentinels) >= counts.spans, "{} sentinels", tokens.sentinels.size());
  const auto hidden = segments(key, Words::hidden, counts.hidden, counts.spans);
  const auto kept = segments(key, Words::kept, counts.kept(), counts.spans);
  Writer encoder(sides.encoder_ids), targets(sides.targets);
  for (size_t i = 0; i < hidden.size(); ++i) {
    const auto before = static_cast<size_t>(kept[i]), span = static_cast<size_t>(hidden[i]);
    encoder.put(text.first(before));
    encoder.put(tokens.sentinels[i]);
    targets.put(tokens.sentinels[i]);
    targets.put(text.subspan(before, span));
    text = text.subspan(before + span);
  }
  encoder.put(tokens.end);
  targets.put(tokens.end);
  MEGA_CHECK(text.empty() && encoder.full() && targets.full(), "sides of other lengths");
  MEGA_CHECK_EQ(sides.decoder_ids.size(), sides.targets.size());
  sides.decoder_ids[0] = tokens.start;
  std::copy(sides.targets.begin(), sides.targets.end() - 1, sides.decoder_ids.begin() + 1);
}

}  // namespace megalith::objectives

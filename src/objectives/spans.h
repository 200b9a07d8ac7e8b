// SPDX-License-Identifier: Apache-2.0
// T5's corruption of one sample (Raffel et al. 2020, section 3.1.4): spans of its tokens are
// hidden, each behind a sentinel of its own, and the decoder says what was there:
//   text      Thank you for inviting me to your party last week
//   encoder   Thank you <0> me to your party <1> </s>
//   targets   <0> for inviting <1> last week </s>
// How many tokens and spans are hidden is fixed, and so are the lengths of both sides: only where
// the spans lie is drawn, uniformly among all ways to cut the hidden tokens into spans and the
// others into the stretches before them, none of them empty. A sample begins with a token that is
// kept and ends with one that is hidden.
//
// All of it is a function of the tokens and one key. Place g draws one Philox block. The hidden
// tokens, one after another, are cut at those of their gaps g (between hidden tokens g and g + 1)
// whose words 0 and 1 are smallest, the others at those whose words 2 and 3 are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megalith::objectives {

struct SpanOptions {
  double rate = 0.15;      // of the tokens, (0, 1): hidden
  double mean_length = 3;  // of a span, in tokens, >= 1
};

/// What a sample of an encoder's length is made of.
struct SpanCounts {
  int64_t raw = 0;     // tokens of the text
  int64_t hidden = 0;  // of these
  int64_t spans = 0;

  int64_t kept() const { return raw - hidden; }
  /// With a sentinel for each span and the end.
  int64_t encoder_length() const { return kept() + spans + 1; }
  int64_t decoder_length() const { return hidden + spans + 1; }
};

/// Of `raw` tokens: round(rate raw) hidden ones in round(hidden / mean_length) spans, both at least
/// 1, halves to even. As in T5.
SpanCounts counts_of_text(const SpanOptions& options, int64_t raw);
/// Of the longest text whose encoder's side has `encoder_length` tokens. UserError if there is none
/// or spans would touch.
SpanCounts span_counts(const SpanOptions& options, int64_t encoder_length);

/// The ids that are not text.
struct SpanTokens {
  std::vector<int32_t> sentinels;  // in the order of their use
  int32_t start = 0;               // what the decoder reads first
  int32_t end = 0;                 // of both sides
};

/// Both sides of one sample, to be overwritten.
struct SpanSides {
  std::span<int32_t> encoder_ids;  // encoder_length()
  std::span<int32_t> decoder_ids;  // decoder_length(): the targets, one place later
  std::span<int32_t> targets;      // likewise
};

/// `text`: counts.raw tokens.
void corrupt_sample(const SpanCounts& counts, const SpanTokens& tokens, uint64_t key,
                    std::span<const int32_t> text, const SpanSides& sides);

}  // namespace megalith::objectives

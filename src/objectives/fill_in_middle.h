// SPDX-License-Identifier: Apache-2.0
// Fill-in-the-middle (Bavarian et al. 2022) of the tokens of one sample: text between ends of
// documents is, with a probability, cut at two of its characters into prefix, middle and suffix,
// each is encoded anew, and they follow one another so that the middle comes last:
//   PSM   <prefix> p <suffix> s <middle> m
//   SPM   <prefix> <suffix> s <middle> p m      ("variant 2")
// What the sample becomes longer by is cut off at its end. Text number j of a sample draws Philox
// block j: whether it is cut (word 0), its order (1) and both places (2 and 3).
//
// A special token is one character, and so is a token with part of a character that the sample's
// window cuts off. A text that came out shorter than it was stays as it is, so nothing is padded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/host_batch.h"
#include "text/tokenizer.h"

namespace megalith::objectives {

/// How a tokenizer spells the three tokens.
struct MiddleTokens {
  std::string prefix, middle, suffix;
};

struct FillInMiddleOptions {
  double rate = 0.5;      // probability that a text is cut
  double spm_rate = 0.5;  // of these: that suffix and prefix change places
  MiddleTokens tokens;    // all empty: those of code models that the tokenizer has
};

class FillInMiddle {
 public:
  /// UserError when the tokenizer lacks a token, or a piece of a text is not what its tokens say.
  FillInMiddle(const text::Tokenizer& tokenizer, const FillInMiddleOptions& options);

  /// Changes `tokens` in place. Any thread.
  void change(uint64_t key, std::span<int32_t> tokens) const;

 private:
  struct Draw;
  Draw draw(uint64_t key, uint64_t text) const;
  void append_cut(text::Encoder& encoder, const Draw& draw, std::span<const int32_t> text,
                  std::vector<int32_t>& out) const;

  text::Tokenizer tokenizer_;
  uint64_t cut_, spm_;  // thresholds of 32-bit words
  int32_t prefix_, middle_, suffix_;
  int32_t end_of_document_;  // -1: none
};

/// The same for samples of corpora, keyed like what masked_source.h hides.
data::ChangeTokens rearranged(FillInMiddle middle, uint64_t seed);

}  // namespace megalith::objectives

// SPDX-License-Identifier: Apache-2.0
// What a file's normalizer does to each part of a text between added tokens: a row of steps, each a
// component of tokenizer.json. Runs of ASCII take a short way through every step.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "characters/normal_form.h"
#include "tokenize/chars_map.h"
#include "tokenize/regex.h"
#include "tokenize/sentencepiece_normalizer.h"

namespace megalith::tokenize {

/// U+2581, which stands for a space in SentencePiece's vocabularies.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

struct BertNormalizer {
  bool clean_text = true;            // control characters go, white space becomes spaces
  bool handle_chinese_chars = true;  // spaces around ideographs
  bool strip_accents = true;
  bool lowercase = true;
};
struct Lowercase {};
struct StripAccents {};
/// Control characters go and some spaces and marks become spaces, as in Google's translators.
struct Nmt {};
struct StripSpace {
  bool left = true;
  bool right = true;
};
struct Prepend {
  std::string text;  // before what is not empty
};
struct ReplaceText {
  std::string from;  // not empty
  std::string to;
};
struct ReplaceMatches {
  std::shared_ptr<const Regex> regex;
  std::string to;
};
/// Each byte becomes the character of the byte alphabet.
struct ByteCharacters {};

/// SentencePiece's compiled rules.
using CompiledRules = std::shared_ptr<const CharsMap>;

using NormalizerStep = std::variant<characters::NormalForm, BertNormalizer, Lowercase, StripAccents,
                                    Nmt, StripSpace, Prepend, ReplaceText, ReplaceMatches,
                                    ByteCharacters, CompiledRules, SentencePieceNormalizer>;

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  struct Result {
    std::string_view text;  // in the scratch, or the input itself
    bool keeps_start;       // nothing was taken away before the first character
  };
  /// Working memory of one thread.
  struct Scratch {
    std::string text[2];
  };
  bool changes_nothing() const { return steps_.empty(); }
  bool is_sentencepiece() const {
    return steps_.size() == 1 && std::holds_alternative<SentencePieceNormalizer>(steps_[0]);
  }
  /// `text` must be UTF-8. The result lives until the scratch is used again.
  Result apply(std::string_view text, Scratch& scratch) const;
  std::string apply(std::string_view text) const;

 private:
  std::vector<NormalizerStep> steps_;
};

/// The token with each mark turned into a space.
std::string unmark_spaces(std::string_view token);

}  // namespace megalith::tokenize

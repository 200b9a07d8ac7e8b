// SPDX-License-Identifier: Apache-2.0
// Cutting normalised text into the words that a model sees: a row of steps, each a component of
// tokenizer.json. A step cuts further what the ones before it left; two of them (Metaspace,
// ByteLevel) also rewrite the text. The one known pattern of byte-level BPE alone has a scanner
// (split.h), and an encoder goes from word to word without a list.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenize/regex.h"
#include "tokenize/split.h"

namespace megalith::tokenize {

/// What becomes of the places that a step finds.
enum class SplitBehavior {
  removed,
  isolated,              // each is a word
  merged_with_previous,  // each ends a word
  merged_with_next,      // each begins one
  contiguous,            // neighbouring ones are one word
};

/// White space is taken out, punctuation stands alone.
struct BertWords {};
/// Runs of word characters and runs of other characters but white space.
struct WordRuns {};
/// White space is taken out.
struct SpaceSplit {};
struct PunctuationSplit {
  SplitBehavior behavior = SplitBehavior::isolated;
};
struct DigitSplit {
  bool individual = false;
};
/// A character is taken out.
struct DelimiterSplit {
  std::string delimiter;
};
/// The matches of a known pattern; it covers the text, so none lies between two.
struct PatternSplit {
  SplitPattern pattern = SplitPattern::gpt2;
};
struct StringSplit {
  std::string text;  // not empty
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
};
/// The matches of any other pattern.
struct RegexSplit {
  std::shared_ptr<const Regex> regex;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
};
/// Spaces become the replacement, which may come before the text, and a word begins at each.
struct Metaspace {
  enum class Scheme { first, never, always };
  std::string replacement = "\xE2\x96\x81";  // one character
  Scheme scheme = Scheme::always;
  bool split = true;
};
/// GPT-2's pattern, a space before the text, and bytes as characters of the byte alphabet.
struct ByteLevelSplit {
  bool add_prefix_space = true;
  bool use_regex = true;
  bool map_bytes = true;  // false: words stay bytes, for a model that knows bytes
};

using PreTokenizerStep =
    std::variant<BertWords, WordRuns, SpaceSplit, PunctuationSplit, DigitSplit, DelimiterSplit,
                 PatternSplit, StringSplit, RegexSplit, Metaspace, ByteLevelSplit>;

/// Words within a text, and working memory of one thread.
struct Words {
  struct Word {
    size_t begin;
    size_t end;
  };
  std::string_view text;
  std::vector<Word> words;  // none is empty
  bool at_start = false;    // the first word begins where the whole input begins

  std::string rewritten[2];
  std::vector<Word> cut;
  using Match = Regex::Match;
  std::vector<Match> matches;
};

/// Appends the words that `matches`, which cover a text, make. None is empty.
void append_split(std::span<const Words::Match> matches, SplitBehavior behavior,
                  std::vector<Words::Word>& words);

/// What Metaspace does.
void cut_with_marks(const Metaspace& step, Words& words);

class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps);

  /// Cuts `text`, which is not empty; `at_start`: it begins where the whole input begins.
  void cut(std::string_view text, bool at_start, Words& words) const;
  bool does_nothing() const { return steps_.empty(); }
  /// The scanner that does the same as `steps`, or null; `adds_space`: after a space is put before
  /// text that begins with none.
  WordScanner scanner() const { return scanner_; }
  bool adds_space() const { return adds_space_; }

 private:
  std::vector<PreTokenizerStep> steps_;
  WordScanner scanner_ = nullptr;
  bool adds_space_ = false;
};

}  // namespace megalith::tokenize

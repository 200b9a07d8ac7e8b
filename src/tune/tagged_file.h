// SPDX-License-Identifier: Apache-2.0
// Files of words with a tag each (token classification): JSON lines, if the name ends in .jsonl or
// .json, else columns.
//   JSON     {"tokens": [...], "ner_tags": [...]}, as `datasets` exports them; tokens may also be
//            called words, and ner_tags tags or labels. A tag is a class's name (a text) or index
//            (a number); -100: the word has none, and counts for nothing
//   columns  the word first and its tag last, separated by blanks or tabs; a blank line ends a text
//            (CoNLL, Tjong Kim Sang & De Meulder 2003), and so does a line that begins with the
//            word -DOCSTART-, which is left out. A tag is a name or -100
#pragma once

#include "tune/example_file.h"

namespace megalith::tune {

struct TaggedWords {
  std::vector<std::string> words;
  std::vector<int32_t> labels;  // class indices of the words; -1: none
};

/// A line of JSON; its tags are names of `labels` or indices into them. The UserError is worded as
/// the end of a sentence about the line.
TaggedWords parse_tagged_line(std::string_view line, const std::vector<std::string>& labels);

/// Encodes words one by one, with a blank before each but the first where the tokenizer's tokens
/// contain blanks (byte-level BPE). A word's label is given to its first token; its other tokens
/// and special ones have none. Words that give no token are left out with their labels.
class TaggedEncoder {
 public:
  explicit TaggedEncoder(const text::Tokenizer& tokenizer);
  /// The text as `rule` has it (truncated, it still ends with the special tokens that end a text);
  /// nothing, counted, when the rule drops it or no word that is left has a label. UserErrors are
  /// worded as above.
  std::optional<Example> encode(const TaggedWords& text, const LengthRule& rule,
                                ExampleCounts& counts);

 private:
  const text::Tokenizer& tokenizer_;
  text::Encoder encoder_;
  bool has_blanks_;  // a token may begin with the blank before its word
  int64_t special_;  // tokens around a text
};

/// All texts of the files that `rule` keeps; there may be none. UserErrors name the file and the
/// line.
std::vector<Example> read_tagged(const std::vector<std::string>& files,
                                 const text::Tokenizer& tokenizer,
                                 const std::vector<std::string>& labels, const LengthRule& rule,
                                 ExampleCounts& counts);

}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
// Files of words with tags, one of each word (token classification): JSON lines, by the names
// .jsonl and .json, else columns.
//   JSON     {"tokens": [...], "ner_tags": [...]}, as datasets exports them; tokens may also be
//            called words, ner_tags tags or labels. A tag is a text, the name of a class, or a
//            number, its index; -100: nothing is said of the word
//   columns  a word, whatever else, and the word's tag, between blanks or tabs; a line without
//            anything ends a text (CoNLL, Tjong Kim Sang & De Meulder 2003); -DOCSTART- is left
//            out. A tag is a name or -100
#pragma once

#include "tune/example_file.h"

namespace megalith::tune {

struct TaggedWords {
  std::vector<std::string> words;
  std::vector<int32_t> labels;  // of each word; -1: nothing is said of it
};

/// A line of JSON, with the classes that its tags are among `labels`. The UserError is worded as
/// the end of a sentence about the line.
TaggedWords parse_tagged_line(std::string_view line, const std::vector<std::string>& labels);

/// The words as the text that they make, one blank between two, each by itself into tokens. A
/// word's label is that of its first token; other tokens and special ones have none. Words that no
/// token stands for are left out with their labels.
class TaggedEncoder {
 public:
  explicit TaggedEncoder(const text::Tokenizer& tokenizer);
  /// As far as `rule` keeps it (a truncated one ends with the special tokens that end a text);
  /// nothing when it is left out, as one is too of which no word has a label. UserErrors are worded
  /// as above.
  std::optional<Example> encode(const TaggedWords& text, const LengthRule& rule,
                                ExampleCounts& counts);

 private:
  const text::Tokenizer& tokenizer_;
  text::Encoder encoder_;
  bool has_blanks_;  // a token may begin with the blank before its word
  int64_t special_;  // tokens around a text
};

/// All texts of the files, as far as `rule` keeps them; there may be none. UserErrors name the file
/// and the line.
std::vector<Example> read_tagged(const std::vector<std::string>& files,
                                 const text::Tokenizer& tokenizer,
                                 const std::vector<std::string>& labels, const LengthRule& rule,
                                 ExampleCounts& counts);

}  // namespace megalith::tune

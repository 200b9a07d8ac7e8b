// SPDX-License-Identifier: Apache-2.0
// Files of texts with labels: JSON lines or, by the name .tsv, GLUE's tables.
//   JSON     {"text"[, "pair"], "label"}; a text may also be called sentence, sentence1, premise,
//            question or question1, its pair sentence2, hypothesis, question2 or sentence
//   TSV      a line of column names first: those of JSON, or MRPC's "#1 String", "#2 String" and
//            "Quality"; without one, CoLA's four columns, of which the second is the label. A label
//            may also be called score, gold_label (MNLI) or is_duplicate (QQP)
#pragma once

#include "tune/example_file.h"

namespace megalith::tune {

struct LabelledText {
  std::string text;
  std::optional<std::string> pair;
  std::string label;
};

/// A line of JSON. The UserError is worded as the end of a sentence about the line.
LabelledText parse_labelled_line(std::string_view line);

/// Which class a label is: that of its name, or of its number among them. UserError, worded
/// likewise, when it is neither.
int32_t class_of(const std::string& label, const std::vector<std::string>& labels);

/// All lines of the files as examples with a class, or where there is one label, with the number
/// that a line's label is. As read_examples, but that none is truncated.
std::vector<Example> read_labelled(const std::vector<std::string>& files,
                                   const text::Tokenizer& tokenizer,
                                   const std::vector<std::string>& labels, const LengthRule& rule,
                                   ExampleCounts& counts);

}  // namespace megalith::tune

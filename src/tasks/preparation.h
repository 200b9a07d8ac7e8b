// SPDX-License-Identifier: Apache-2.0
// What tasks make of records that a template does not say: cleaned texts, choices put together.
// Each adds fields to a document (set_field), and gives a UserError with its place for a record
// that it cannot use.
#pragma once

#include "tasks/document.h"

namespace megalith::tasks {

/// "query", "choices", "gold": without the traces of WikiHow, the second half of the context
/// capitalized (Zellers et al. 2019).
void prepare_hellaswag(Document& document);
/// Partial scoring (Trinh and Le 2018): "contexts" with either option in the blank, "rest" behind
/// it, and "gold".
void prepare_winogrande(Document& document);
/// "question" (text), "options" and "labels" from `choices: {text, label}`, or from AI2's own form
/// with `question: {stem, choices: [{text, label}]}`; and "gold" from "answerKey".
void prepare_science_question(Document& document);
/// "gold" of "label" (0 or 1), or of "answer" (true or false).
void prepare_boolq(Document& document);
/// "query", "options" and "gold" of the last problem of an article, after the others with their
/// answers; "problems" is a list, or the text of one as Python prints it.
void prepare_race(Document& document);
/// The same with the last question in words, as NeMo's harness asks.
void prepare_race_nemo(Document& document);
/// Rows of one question each (consecutive ones of one article) become articles with "problems".
std::vector<Document> group_race(std::vector<Document> rows);
/// "text" of "page" without the spaces that WikiText's tokenization left.
void prepare_wikitext(Document& document);
/// "context" and "last" of "text": plain quotes, the last word apart.
void prepare_lambada_nemo(Document& document);

/// Behind prepare_wikitext(): also the text around numbers, punctuation, brackets and headings.
std::string detokenized_wikitext(std::string text);

}  // namespace megalith::tasks

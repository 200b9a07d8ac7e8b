// SPDX-License-Identifier: Apache-2.0
// Questions with answers that are spans of a context: SQuAD's JSON (Rajpurkar et al. 2016, 2018),
// which XQuAD and others use too.
//   {"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text",
//   "answer_start"}][, "is_impossible"]}]}]}]}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megalith::questions {

/// Of a file of questions, or of answers to them.
inline constexpr int64_t kMostSetBytes = int64_t{1} << 30;

struct Question {
  /// The file's answer_start counts characters; `begin` counts bytes.
  struct Answer {
    std::string text;
    int64_t begin = 0;  // 0 where places do not matter
    int64_t end() const { return begin + static_cast<int64_t>(text.size()); }
  };
  std::string id, text;
  size_t context = 0;           // which of the set's
  std::vector<Answer> answers;  // none: the question is unanswerable
  /// The answers' texts, for scoring.
  std::vector<std::string> answer_texts() const;
};

struct QuestionSet {
  std::string file;  // named in errors
  std::vector<std::string> contexts;
  std::vector<Question> questions;
  /// Whether some questions are unanswerable, so that no answer may be right (SQuAD 2.0).
  bool has_unanswerable = false;
};

/// Whether answer_start is read and checked: training needs it, scoring compares texts alone.
enum class AnswerPlaces { needed, ignored };

/// UserError, naming the file and the question, for what is not of this form; if `places` are
/// needed, for an answer that is not at its answer_start; for an id that occurs twice; for a file
/// without questions.
QuestionSet read_question_file(const std::string& file, AnswerPlaces places);

}  // namespace megalith::questions

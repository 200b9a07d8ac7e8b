// SPDX-License-Identifier: Apache-2.0
// Questions about texts whose answers stand in them: SQuAD's JSON (Rajpurkar et al. 2016, 2018),
// which XQuAD and others have too.
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
  /// answer_start counts characters; here bytes are.
  struct Answer {
    std::string text;
    int64_t begin = 0;  // 0 where places do not matter
    int64_t end() const { return begin + static_cast<int64_t>(text.size()); }
  };
  std::string id, text;
  size_t context = 0;           // which of the set's
  std::vector<Answer> answers;  // none: the text has no answer
  /// What answers say, for scores.
  std::vector<std::string> answer_texts() const;
};

struct QuestionSet {
  std::string file;  // that faults name
  std::vector<std::string> contexts;
  std::vector<Question> questions;
  /// Whether some questions have no answer, so that to give none is one (SQuAD 2.0).
  bool has_unanswerable = false;
};

/// Whether it matters where answers stand: it does to learn them, and not to compare texts.
enum class AnswerPlaces { needed, ignored };

/// UserError, naming the file and the question, for what is none; for an answer that does not stand
/// where it says, where that matters; for a question that is there twice; when there is none.
QuestionSet read_question_file(const std::string& file, AnswerPlaces places);

}  // namespace megalith::questions

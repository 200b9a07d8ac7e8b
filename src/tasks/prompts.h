// SPDX-License-Identifier: Apache-2.0
// From a task and a document to what a model is asked: the question with examples before it, and
// what may continue it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "metrics/python_random.h"
#include "tasks/task.h"

namespace megalith::tasks {

/// What a task's parts are of one document.
struct Question {
  std::string text = {};
  std::optional<int64_t> text_number = {};  // in place of the text: which choice is the context
  chat::Value target = {};                  // a text, a choice's number, or a list of either
  std::vector<std::string> choices = {};
};
/// UserError with the document's place.
Question question_of(const Task& task, const Document& document);

/// One thing that a model is asked: the log-probability of `continuation` behind `context` (of a
/// rolling task of the whole continuation), or to write on from the context.
struct Asked {
  std::string context = {};
  std::string continuation = {};
};

struct AskedDocument {
  Question question = {};
  std::vector<Asked> asked = {};
};

class Prompts {
 public:
  /// `pool`: of examples; `shots` of them come before each question, drawn from it with `seed` as
  /// lm-eval draws them. UserError if there are not so many. The task must outlive it.
  Prompts(const Task& task, std::vector<Document> pool, int64_t shots, uint64_t seed);

  /// To be called once for each document, in order: what is drawn depends on what was drawn before.
  AskedDocument ask(const Document& document);

 private:
  std::vector<const Document*> examples(const Document& document);
  std::string example(const Document& document) const;
  std::string beginning(const Document& document);

  const Task& task_;
  std::vector<Document> pool_;
  std::vector<std::string> shown_;  // of records: which are equal
  int64_t shots_;
  bool leaves_out_asked_;
  metrics::PythonRandom random_;
};

}  // namespace megalith::tasks

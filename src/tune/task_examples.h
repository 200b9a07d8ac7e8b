// SPDX-License-Identifier: Apache-2.0
// Files of examples of several tasks that train in one run, each behind virtual tokens of its own
// (ExampleForm::before), as NeMo's prompt learning has them: a line says of which task it is,
//   {"taskname": "squad", "context": "...", "question": "...", "answer": "..."}
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tune/example_file.h"

namespace megalith::tune {

struct TaskForm {
  std::string name;
  const ExampleForm& form;
  int64_t examples = 0;  // that were kept
};

/// As read_examples(), of lines whose "taskname" names one of the tasks; where there is one task,
/// lines need not. A line that has the name, and whose task has a template, has no other keys than
/// the template's fields. Counts the examples of each task; that one has none is no error.
std::vector<Example> read_task_examples(const std::vector<std::string>& files,
                                        std::span<TaskForm> tasks, const LengthRule& rule,
                                        ExampleCounts& counts);

}  // namespace megalith::tune

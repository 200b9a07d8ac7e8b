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

/// Like read_examples(), for lines whose "taskname" names one of the tasks; with a single task they
/// need not name it. A line that names a task which has a template may have no other keys than the
/// fields of that template. Counts the examples of each task; a task without any is no error.
std::vector<Example> read_task_examples(const std::vector<std::string>& files,
                                        std::span<TaskForm> tasks, const LengthRule& rule,
                                        ExampleCounts& counts);

}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
#include "tune/task_examples.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tune/line_json.h"

namespace megalith::tune {
namespace {

constexpr char kTaskKey[] = "taskname";

/// What the template has no field for would be lost silently.
void require_fields(const LineJson& line, const TaskForm& task) {
  const std::vector<std::string>& fields = task.form.fields.fields();
  for (const auto& [key, value] : line.items()) {
    if (key == kTaskKey || std::ranges::find(fields, key) != fields.end()) continue;
    throw UserError("has a field {:?}, which the template of task {:?} has no place for", key,
                    task.name);
  }
}

TaskForm& task_of(const LineJson& line, std::span<TaskForm> tasks) {
  if (tasks.size() == 1 && member(line, kTaskKey) == nullptr) return tasks.front();
  const std::string name = text_of(line, kTaskKey);
  const auto found = std::ranges::find(tasks, name, &TaskForm::name);
  if (found == tasks.end()) {
    std::vector<std::string> names;
    for (const TaskForm& task : tasks) names.push_back(task.name);
    throw UserError("has an unknown {} {:?}; known here: {}", kTaskKey, name,
                    fmt::join(names, ", "));
  }
  if (found->form.only_fields) require_fields(line, *found);
  return *found;
}

}  // namespace

std::vector<Example> read_task_examples(const std::vector<std::string>& files,
                                        std::span<TaskForm> tasks, const LengthRule& rule,
                                        ExampleCounts& counts) {
  std::vector<Example> examples;
  for (const std::string& file : files) {
    for_each_line(file, kMostLineBytes, [&](std::string_view line) {
      const LineJson parsed = parse_line(line);
      TaskForm& task = task_of(parsed, tasks);
      const ExampleForm& form = task.form;
      task.examples += add_examples(parse_example_line(parsed, form.fields, form.only_fields), form,
                                    rule, counts, examples);
    });
  }
  require_examples(!examples.empty(), rule, counts);
  return examples;
}

}  // namespace megalith::tune

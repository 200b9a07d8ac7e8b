// SPDX-License-Identifier: Apache-2.0
// The tasks that are known by name. What lm-eval's and NeMo's definitions of them say, as facts.
#pragma once

#include <string>
#include <vector>

#include "tasks/task.h"

namespace megalith::tasks {

/// Tasks in the order in which they run, and the groups that sum some of them up.
struct TaskList {
  std::vector<Task> tasks = {};
  std::vector<TaskGroup> groups = {};
};

/// Names of tasks and groups of a profile, sorted. (Of MMLU's subjects the groups alone.)
std::vector<std::string> task_names(Profile profile);
/// By name: a task, one subject of MMLU ("mmlu_anatomy"), or a group with its tasks. UserError
/// naming the nearest known one. Twice the same is once.
TaskList find_tasks(const std::vector<std::string>& names, Profile profile);

/// MMLU's subjects by their group ("stem", "other", "social_sciences", "humanities").
std::vector<std::string> mmlu_subjects(std::string_view group);

}  // namespace megalith::tasks

// SPDX-License-Identifier: Apache-2.0
// The tables behind built_in.h. Private to their sources.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tasks/built_in.h"

namespace megalith::tasks {

using TaskTable = std::map<std::string, std::function<Task()>>;
const TaskTable& lm_eval_tasks();
const TaskTable& nemo_tasks();

inline constexpr const char* kMmluGroups[] = {"stem", "other", "social_sciences", "humanities"};
/// Whether `name` is MMLU, one of its groups or of its subjects; then they are added.
bool add_mmlu(const std::string& name, TaskList& list);

}  // namespace megalith::tasks

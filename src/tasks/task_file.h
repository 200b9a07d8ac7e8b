// SPDX-License-Identifier: Apache-2.0
// Tasks in the YAML of lm-eval, as far as it calls no Python: templates, choices, metrics, filters,
// examples, `include`. What is not supported is refused by its name and line.
#pragma once

#include <filesystem>

#include "tasks/task.h"

namespace megalith::tasks {

/// UserError with FILE:LINE and key for what is no task, asks for Python (`!function`), or is not
/// supported; every key is known or refused.
Task read_task_file(const std::filesystem::path& file);

}  // namespace megalith::tasks

// SPDX-License-Identifier: Apache-2.0
// Values of a task file that are maps of their own. Private to task_file.cpp.
#pragma once

#include "tasks/task.h"
#include "tasks/yaml_tree.h"

namespace megalith::tasks {

/// An entry of metric_list.
MetricUse metric_of(const YamlNode& node);
/// An entry of filter_list.
Filter filter_of(const YamlNode& node);
/// generation_kwargs; `has_until`: whether they say where a text ends.
Generation generation_of(const YamlNode& node, bool& has_until);
/// doc_to_text and its like; `name` for messages.
Part part_of(const YamlNode& node, const std::string& name);

}  // namespace megalith::tasks

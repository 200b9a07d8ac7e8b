// SPDX-License-Identifier: Apache-2.0
// Which file holds a task's documents.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace megalith::tasks {

/// A folder of JSONL files. A split S of a task with the name or file name T is the first of
/// T/S.jsonl, T_S.jsonl, T-S.jsonl, S also spelled "valid", "val" or "dev" for "validation"; of the
/// split that is asked also T.jsonl, or the one file whose name begins with T_ or T- and names no
/// other split. Ends .json with a line for each document too.
class DataFolder {
 public:
  /// UserError if it is no folder. Empty: none, for tasks that name their files.
  explicit DataFolder(std::filesystem::path folder);
  /// UserError naming what was looked for.
  std::filesystem::path find(const Task& task, const std::string& split) const;
  /// Grouped, prepared and selected as the task says. Files are read once.
  std::vector<Document> documents(const Task& task, const std::string& split);

 private:
  std::filesystem::path folder_;
  std::vector<std::string> names_;  // of its files, sorted
  std::map<std::filesystem::path, std::shared_ptr<const std::vector<Document>>> read_;
};

/// The task's own work on rows that were read: grouping, selection, preparation.
std::vector<Document> prepared(const Task& task, std::vector<Document> rows);

}  // namespace megalith::tasks

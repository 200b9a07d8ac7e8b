// SPDX-License-Identifier: Apache-2.0
#include "tasks/data_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "chat_values/python_text.h"

namespace megalith::tasks {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kEnds = {".jsonl", ".json"};

std::vector<std::string> spellings(const std::string& split) {
  if (split == "validation") return {"validation", "valid", "val", "dev"};
  return {split};
}

/// Whether a name's rest behind the task's says another split than this.
bool names_other_split(std::string_view rest, const std::string& split) {
  for (const std::string known : {"train", "validation", "test"}) {
    if (known == split) continue;
    for (const std::string& spelled : spellings(known))
      if (rest.find(spelled) != std::string_view::npos) return true;
  }
  return false;
}

/// The rest of a name behind the task's and a joint, without its end.
std::optional<std::string_view> rest_of(std::string_view name, std::string_view task) {
  for (const std::string_view end : kEnds) {
    if (!name.ends_with(end) || name.size() < task.size() + end.size() + 1) continue;
    const char joint = name[task.size()];
    if (name.starts_with(task) && (joint == '_' || joint == '-'))
      return name.substr(task.size() + 1, name.size() - task.size() - 1 - end.size());
  }
  return {};
}

}  // namespace

DataFolder::DataFolder(fs::path folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  std::error_code error;
  if (!fs::is_directory(folder_, error))
    throw UserError("--data {}: is no folder", folder_.string());
  for (const auto& entry : fs::directory_iterator(folder_, error))
    if (!entry.is_directory()) names_.push_back(entry.path().filename().string());
  if (error) throw SystemError("{}: {}", folder_.string(), error.message());
  std::ranges::sort(names_);
}

fs::path DataFolder::find(const Task& task, const std::string& split) const {
  if (const auto named = task.data_files.find(split); named != task.data_files.end())
    return named->second;
  if (folder_.empty())
    throw UserError("--data is needed: {} does not name the file of its {} split", task.name,
                    split);
  const bool is_asked = split == task.splits.evaluated();
  std::vector<std::string> bases{task.name};
  bases.insert(bases.end(), task.files.begin(), task.files.end());
  std::vector<std::string> tried;
  std::error_code error;
  for (const std::string& base : bases) {
    for (const std::string_view end : kEnds) {
      for (const std::string& spelled : spellings(split))
        for (const char* const joint : {"/", "_", "-"})
          tried.push_back(fmt::format("{}{}{}{}", base, joint, spelled, end));
      if (is_asked) tried.push_back(fmt::format("{}{}", base, end));
    }
  }
  for (const std::string& name : tried)
    if (fs::is_regular_file(folder_ / name, error)) return folder_ / name;
  std::vector<std::string> like;
  for (const std::string& base : bases) {
    for (const std::string& name : names_) {
      const auto rest = rest_of(name, base);
      if (is_asked && rest && !names_other_split(*rest, split)) like.push_back(name);
    }
    if (like.size() == 1) return folder_ / like[0];
    if (like.size() > 1)
      throw UserError("{}: {} could all be the {} split of {}; name one {}.jsonl", folder_.string(),
                      fmt::join(like, ", "), split, task.name, task.name);
  }
  throw UserError("{}: the {} split of {} is not there: it is looked for as {}", folder_.string(),
                  split, task.name, fmt::join(tried, ", "));
}

std::vector<Document> DataFolder::documents(const Task& task, const std::string& split) {
  const fs::path file = find(task, split);
  std::shared_ptr<const std::vector<Document>>& known = read_[file];
  if (known == nullptr) known = std::make_shared<const std::vector<Document>>(read_documents(file));
  std::vector<Document> documents = prepared(task, *known);
  if (documents.empty())
    throw UserError("{}: no document has {} \"{}\", which {} asks for", file.string(),
                    task.only->field, task.only->value, task.name);
  return documents;
}

std::vector<Document> prepared(const Task& task, std::vector<Document> rows) {
  if (task.group != nullptr) rows = task.group(std::move(rows));
  if (task.only) {
    std::erase_if(rows, [&](const Document& document) {
      return document.text(task.only->field) != task.only->value;
    });
  }
  if (task.prepare != nullptr)
    for (Document& document : rows) task.prepare(document);
  return rows;
}

}  // namespace megalith::tasks

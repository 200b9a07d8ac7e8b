// SPDX-License-Identifier: Apache-2.0
// Scores on tasks: a row for each metric, a column for each checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/html.h"
#include "report/sections.h"

namespace megalith::report {
namespace {

constexpr size_t kMostColumns = 10;

std::string cell(const TaskScore* score) {
  if (score == nullptr) return "<td></td>";
  const std::string error =
      score->error ? fmt::format("<small>&plusmn; {:.4f}</small>", *score->error) : "";
  return fmt::format("<td class=\"number\">{:.4f}{}</td>", score->value, error);
}

/// At most so many, evenly, with the first and the last.
std::vector<std::string> columns_of(const std::vector<TaskScore>& scores) {
  std::set<std::string> names;
  for (const TaskScore& score : scores) names.insert(score.checkpoint);
  const std::vector<std::string> all(names.begin(), names.end());
  if (all.size() <= kMostColumns) return all;
  std::vector<std::string> kept;
  for (size_t i = 0; i < kMostColumns; ++i)
    kept.push_back(all[i * (all.size() - 1) / (kMostColumns - 1)]);
  return kept;
}

}  // namespace

std::string tasks_html(const RunRecord& record) {
  if (record.scores.empty()) return "";
  const std::vector<std::string> columns = columns_of(record.scores);
  std::string out = "<thead><tr><th scope=\"col\">task</th><th scope=\"col\">metric</th>";
  for (const std::string& name : columns)
    out += fmt::format("<th scope=\"col\">{}</th>", escape_html(name));
  out += "</tr></thead>\n<tbody>\n";
  std::map<std::pair<std::string, std::string>, std::map<std::string, const TaskScore*>> rows;
  for (const TaskScore& score : record.scores)
    rows[{score.task, score.metric}][score.checkpoint] = &score;
  for (const auto& [key, by_checkpoint] : rows) {
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td>", escape_html(key.first),
                       escape_html(key.second));
    for (const std::string& name : columns) {
      const auto found = by_checkpoint.find(name);
      out += cell(found == by_checkpoint.end() ? nullptr : found->second);
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n";
}

}  // namespace megalith::report

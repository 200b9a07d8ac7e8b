// SPDX-License-Identifier: Apache-2.0
// The files that labels and predictions are kept in.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_fault.h"
#include "base/line_reader.h"
#include "characters/utf8.h"
#include "metrics/glue.h"

namespace megalith::metrics {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostLineBytes = int64_t{1} << 20;

std::vector<std::string> columns_of(std::string_view line) {
  std::vector<std::string> columns;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find('\t', begin), line.size());
    columns.emplace_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return columns;
}

std::string known_labels(const GlueTask& task) {
  std::string known;
  for (size_t i = 0; i < task.labels.size(); ++i)
    known += fmt::format("{}{} {}", i == 0 ? "" : ", ", i, task.labels[i]);
  return known;
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || !std::isfinite(value)) return {};
  return value;
}

/// A class by its name, its number, or as LABEL_1; without classes a number.
double value_of(std::string text, const GlueTask& task) {
  if (text.starts_with("LABEL_")) text.erase(0, 6);
  const auto named = std::ranges::find(task.labels, text);
  if (named != task.labels.end()) return static_cast<double>(named - task.labels.begin());
  if (!task.labels.empty() && task.labels[0] == "False" && (text == "true" || text == "false"))
    return text == "true" ? 1 : 0;
  const std::optional<double> number = number_in(text);
  const bool is_class = number && *number >= 0 && *number == std::floor(*number) &&
                        *number < static_cast<double>(task.labels.size());
  if (number && (task.labels.empty() || is_class)) return *number;
  if (task.labels.empty())
    throw UserError("\"{}\" is no number, which {} wants", text.substr(0, 60), task.name);
  throw UserError("\"{}\" is no label of {}; they are {}", text.substr(0, 60), task.name,
                  known_labels(task));
}

double value_of(const Json& json, const GlueTask& task) {
  if (json.is_string()) return value_of(json.get<std::string>(), task);
  if (json.is_boolean()) return value_of(std::string(json.get<bool>() ? "true" : "false"), task);
  if (json.is_number_integer() && json.get<int64_t>() == -1 && !task.labels.empty())
    throw UserError("the label is -1, which marks an example without one");
  if (json.is_number()) return value_of(json.dump(), task);
  throw UserError("the label is {}, no text and no number", json.type_name());
}

/// One line after the other.
class LabelReader {
 public:
  LabelReader(std::string file, const GlueTask& task) : file_(std::move(file)), task_(task) {}

  void take(std::string_view line, int64_t number) {
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) return;
    try {
      characters::require_utf8(line, "the line");
      if (number == 1 && is_heading(line)) return;
      if (line.starts_with('{')) return take_json(line);
      if (column_) return take_row(columns_of(line));
      labels_.values.push_back(value_of(std::string(line), task_));
    } catch (const UserError& error) {
      throw UserError("{}:{}: {}", file_, number, error.what());
    }
  }
  Labels finish() {
    if (labels_.values.empty()) throw UserError("{}: has no labels", file_);
    return std::move(labels_);
  }

 private:
  /// The first line of a TSV says which column; CoLA's has no heading.
  bool is_heading(std::string_view line) {
    const std::vector<std::string> columns = columns_of(line);
    if (columns.size() < 2 || line.starts_with('{')) return false;
    for (const std::string& name : {task_.column, std::string("prediction")}) {
      const auto found = std::ranges::find(columns, name);
      if (name.empty() || found == columns.end()) continue;
      column_ = static_cast<size_t>(found - columns.begin());
      is_submission_ = name == "prediction";
      return true;
    }
    if (task_.name != "cola" || columns.size() != 4)
      throw UserError("a heading without \"{}\" or \"prediction\"", task_.column);
    column_ = 1;
    return false;
  }

  void take_row(const std::vector<std::string>& columns) {
    if (columns.size() <= *column_)
      throw UserError("{} columns; the label is in column {}", columns.size(), *column_ + 1);
    if (is_submission_ && columns[0] != std::to_string(labels_.values.size()))
      throw UserError("the index is {}, not {}", columns[0], labels_.values.size());
    labels_.values.push_back(value_of(columns[*column_], task_));
  }

  void take_json(std::string_view line) {
    if (const auto fault = json_fault(line)) throw UserError("{}", *fault);
    const Json json = Json::parse(line);
    const bool has_number = task_.labels.empty() && json.contains("logits") &&
                            json["logits"].is_array() && json["logits"].size() == 1;
    const Json* found = has_number ? &json["logits"][0] : nullptr;
    for (const char* const key : {"prediction", "label", "score"})
      if (found == nullptr && json.contains(key)) found = &json[key];
    if (found == nullptr) throw UserError("has none of \"prediction\", \"label\" and \"score\"");
    labels_.values.push_back(value_of(*found, task_));
    if (task_.report != Report::multirc) return;
    const auto place = json.find("idx");
    if (place == json.end() || !place->is_object() || !place->contains("question"))
      throw UserError("has no \"idx\" with paragraph and question, which answers belong to");
    const Json paragraph = place->value("paragraph", Json());
    labels_.groups.push_back(paragraph.dump() + " " + (*place)["question"].dump());
  }

  std::string file_;
  const GlueTask& task_;
  Labels labels_;
  std::optional<size_t> column_;
  bool is_submission_ = false;
};

}  // namespace

Labels read_labels(const std::filesystem::path& file, const GlueTask& task) {
  LabelReader labels(file.string(), task);
  LineReader reader(file, kMostLineBytes);
  for (std::string_view line; reader.next(line);) labels.take(line, reader.number());
  if (reader.is_too_long())
    throw UserError("{}:{}: a line longer than {} bytes", file.string(), reader.number() + 1,
                    kMostLineBytes);
  if (!reader.rest().empty()) labels.take(reader.rest(), reader.number() + 1);
  return labels.finish();
}

}  // namespace megalith::metrics

// SPDX-License-Identifier: Apache-2.0
#include "tune/labelled_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_fault.h"
#include "base/line_reader.h"
#include "tune/line_json.h"

namespace megalith::tune {
namespace {

constexpr int64_t kMostLabelledBytes = int64_t{16} << 20;

/// Names of the first text, and of the one beside it where there is one.
struct TextNames {
  std::string_view text, pair;
};
constexpr TextNames kTexts[] = {{"text", "pair"},
                                {"sentence1", "sentence2"},
                                {"premise", "hypothesis"},
                                {"question1", "question2"},
                                {"#1 String", "#2 String"},
                                {"question", "sentence"},
                                {"sentence", ""}};
/// "gold_label" is MNLI's, "is_duplicate" QQP's, "Quality" MRPC's.
constexpr std::string_view kLabels[] = {"label", "score", "gold_label", "is_duplicate", "Quality"};

/// `find(name)`: the value of a field; nothing when there is none.
template <typename Find>
LabelledText labelled_of(const Find& find) {
  LabelledText made;
  const auto is_there = [&](std::string_view name) { return find(name).has_value(); };
  const auto* const names =
      std::ranges::find_if(kTexts, [&](const TextNames& each) { return is_there(each.text); });
  if (names == std::end(kTexts))
    throw UserError(
        "has no text: none of text, sentence, sentence1, premise, question1, question, #1 String");
  const auto* const label = std::ranges::find_if(kLabels, is_there);
  if (label == std::end(kLabels))
    throw UserError("has no label: none of {}", fmt::join(kLabels, ", "));
  made.text = *find(names->text);
  if (!names->pair.empty()) made.pair = find(names->pair);
  made.label = *find(*label);
  return made;
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  for (const char c : line.substr(0, line.find_last_not_of('\r') + 1)) {
    if (c == '\t') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

/// A table's rows, of which the first may say what the columns are.
class Table {
 public:
  /// Nothing for the row of names.
  std::optional<LabelledText> row(std::string_view line) {
    if (names_.empty() && line.starts_with(kByteOrderMark))  // as MRPC's has
      line.remove_prefix(kByteOrderMark.size());
    std::vector<std::string> cells = cells_of(line);
    if (names_.empty()) {
      const auto is_label = [](const std::string& cell) {
        return std::ranges::find(kLabels, cell) != std::end(kLabels);
      };
      if (std::ranges::any_of(cells, is_label)) {
        names_ = std::move(cells);
        return std::nullopt;
      }
      if (cells.size() != 4)
        throw UserError("names no column of {}, and has not CoLA's four", fmt::join(kLabels, ", "));
      names_ = {"source", "label", "mark", "sentence"};
    }
    if (cells.size() != names_.size())
      throw UserError("has {} columns, and the table {}", cells.size(), names_.size());
    return labelled_of([&](std::string_view name) -> std::optional<std::string> {
      const auto found = std::ranges::find(names_, name);
      if (found == names_.end()) return std::nullopt;
      return cells[static_cast<size_t>(found - names_.begin())];
    });
  }

 private:
  std::vector<std::string> names_;
};

float number_of(const std::string& label) {
  float number = 0;
  const char* const end = label.data() + label.size();
  const auto [stop, error] = std::from_chars(label.data(), end, number);
  if (error != std::errc() || stop != end || !std::isfinite(number))
    throw UserError("has a label {:?} that is no number", label);
  return number;
}

Example example_of(const LabelledText& text, const text::Tokenizer& tokenizer,
                   const std::vector<std::string>& labels) {
  const auto pair = text.pair ? std::optional<std::string_view>(*text.pair) : std::nullopt;
  text::Encoding encoding = tokenizer.encode_typed(text.text, pair, true);
  if (encoding.ids.empty()) throw UserError("has a text of no tokens");
  Example example{std::move(encoding.ids), {}, std::move(encoding.type_ids), Target{}};
  example.learned.assign(example.ids.size(), 0);
  if (labels.size() == 1) {
    example.target->number = number_of(text.label);
  } else {
    example.target->label = class_of(text.label, labels);
  }
  return example;
}

}  // namespace

LabelledText parse_labelled_line(std::string_view text) {
  if (const auto fault = json_fault(text)) throw UserError("{}", *fault);
  const auto line = nlohmann::json::parse(text);
  if (!line.is_object()) throw UserError("is not a JSON object");
  return labelled_of([&](std::string_view name) -> std::optional<std::string> {
    const auto found = line.find(name);
    if (found == line.end() || found->is_null()) return std::nullopt;
    if (found->is_string()) return found->get<std::string>();
    if (found->is_number()) return found->dump();
    throw UserError("has a field {:?} that is no text and no number", name);
  });
}

int32_t class_of(const std::string& label, const std::vector<std::string>& labels) {
  const auto named = std::ranges::find(labels, label);
  if (named != labels.end()) return static_cast<int32_t>(named - labels.begin());
  int32_t number = -1;
  const char* const end = label.data() + label.size();
  const auto [stop, error] = std::from_chars(label.data(), end, number);
  if (error != std::errc() || stop != end || number < 0 || number >= std::ssize(labels))
    throw UserError("has a label {:?} that is none of tune.labels, nor the number of one", label);
  return number;
}

std::vector<Example> read_labelled(const std::vector<std::string>& files,
                                   const text::Tokenizer& tokenizer,
                                   const std::vector<std::string>& labels, const LengthRule& rule,
                                   ExampleCounts& counts) {
  std::vector<Example> examples;
  for (const std::string& file : files) {
    Table table;
    const bool is_table = file.ends_with(".tsv");
    for_each_line(file, kMostLabelledBytes, [&](std::string_view line) {
      const std::optional<LabelledText> text =
          is_table ? table.row(line) : std::optional(parse_labelled_line(line));
      if (!text) return;
      ++counts.lines;
      Example example = example_of(*text, tokenizer, labels);
      if (keep_length(example, rule, counts)) examples.push_back(std::move(example));
    });
  }
  require_examples(!examples.empty(), rule, counts);
  return examples;
}

}  // namespace megalith::tune

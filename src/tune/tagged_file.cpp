// SPDX-License-Identifier: Apache-2.0
#include "tune/tagged_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/line_reader.h"
#include "text/placed_texts.h"
#include "text/tokenizer_data.h"
#include "tune/line_json.h"

namespace megalith::tune {
namespace {

constexpr int64_t kMostTaggedBytes = int64_t{16} << 20;
constexpr std::string_view kWordFields[] = {"tokens", "words"};
constexpr std::string_view kTagFields[] = {"ner_tags", "tags", "labels"};
/// The label that PyTorch's cross-entropy ignores, for tokens that are not scored.
constexpr std::string_view kNoClass = "-100";
constexpr std::string_view kDocumentStart = "-DOCSTART-";

int32_t class_named(const std::string& tag, const std::vector<std::string>& labels) {
  const auto named = std::ranges::find(labels, tag);
  if (named == labels.end()) throw UserError("has a tag {:?} that names none of the classes", tag);
  return static_cast<int32_t>(named - labels.begin());
}

/// In JSON a text is a name and a number an index, even where names look like numbers.
int32_t class_of_tag(const LineJson& tag, const std::vector<std::string>& labels) {
  if (tag.is_string()) return class_named(tag.get<std::string>(), labels);
  if (tag.dump() == kNoClass) return -1;
  const auto number = tag.get<int64_t>();
  if (number < 0 || number >= std::ssize(labels))
    throw UserError("has a tag {} that is none of {} classes", tag.dump(), labels.size());
  return static_cast<int32_t>(number);
}

/// A list of texts or whole numbers under the first of the names that the line has.
const LineJson& list_of(const LineJson& line, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    const LineJson* const list = member(line, std::string(name).c_str());
    if (list == nullptr) continue;
    if (!list->is_array()) throw UserError("has a field {:?} that is no list", name);
    for (const LineJson& each : *list)
      if (!each.is_string() && !each.is_number_integer())
        throw UserError("has an element of {:?} that is neither a text nor a whole number", name);
    return *list;
  }
  throw UserError("has none of the fields {}", fmt::join(names, ", "));
}

/// The first and the last column of a line; nothing where a document starts.
std::optional<std::pair<std::string, std::string>> word_and_tag(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = line.find_first_not_of(kBlanks), end = line.find_last_not_of(kBlanks);
  line = line.substr(begin, end + 1 - begin);
  const size_t first = line.find_first_of(kBlanks), last = line.find_last_of(kBlanks);
  if (line.substr(0, first) == kDocumentStart) return std::nullopt;
  if (first == std::string_view::npos)
    throw UserError("has one column; a word and its tag are two");
  return std::pair(std::string(line.substr(0, first)), std::string(line.substr(last + 1)));
}

/// Calls `take` with the texts of a file of columns.
void for_each_tagged_text(const std::string& file, const std::vector<std::string>& labels,
                          FunctionRef<void(const TaggedWords&)> take) {
  LineReader reader(file, kMostTaggedBytes);
  TaggedWords text;
  const auto end_text = [&] {
    if (!text.words.empty()) take(text);
    text = {};
  };
  const auto take_line = [&](std::string_view line, int64_t number) {
    try {
      if (number == 1 && line.starts_with(kByteOrderMark))
        line.remove_prefix(kByteOrderMark.size());
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) return end_text();
      const auto columns = word_and_tag(line);
      if (!columns) return end_text();
      const auto& [word, tag] = *columns;
      text.words.push_back(word);
      text.labels.push_back(tag == kNoClass ? -1 : class_named(tag, labels));
    } catch (const UserError& error) {
      throw UserError("{}:{}: {}", file, number, error.what());
    }
  };
  std::string_view line;
  while (reader.next(line)) take_line(line, reader.number());
  if (reader.is_too_long())
    throw UserError("{}:{}: is longer than {} bytes", file, reader.number() + 1, kMostTaggedBytes);
  take_line(reader.rest(), reader.number() + 1);
  take_line("", reader.number() + 1);
}

bool is_json_lines(const std::string& file) {
  return file.ends_with(".jsonl") || file.ends_with(".json");
}

bool has_label(std::span<const int32_t> labels) {
  return std::ranges::any_of(labels, [](int32_t label) { return label >= 0; });
}

}  // namespace

TaggedWords parse_tagged_line(std::string_view text, const std::vector<std::string>& labels) {
  const LineJson line = parse_line(text);
  TaggedWords made;
  for (const LineJson& word : list_of(line, kWordFields))
    made.words.push_back(word.is_string() ? word.get<std::string>() : word.dump());
  for (const LineJson& tag : list_of(line, kTagFields))
    made.labels.push_back(class_of_tag(tag, labels));
  if (made.words.size() != made.labels.size())
    throw UserError("has {} words and {} tags", made.words.size(), made.labels.size());
  return made;
}

TaggedEncoder::TaggedEncoder(const text::Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      encoder_(tokenizer),
      has_blanks_(tokenizer.data().kind == text::ModelKind::byte_bpe),
      special_(std::ssize(text::place_texts(tokenizer, {}).encoding.ids)) {}

std::optional<Example> TaggedEncoder::encode(const TaggedWords& text, const LengthRule& rule,
                                             ExampleCounts& counts) {
  std::vector<int32_t> ids, labels;
  for (size_t i = 0; i < text.words.size(); ++i) {
    const std::string& word = text.words[i];
    if (word.empty()) continue;
    const size_t first = ids.size();
    encoder_.encode(has_blanks_ && !ids.empty() ? " " + word : word, ids, false);
    labels.resize(ids.size(), -1);
    if (ids.size() > first) labels[first] = text.labels[i];
  }
  if (!has_label(labels)) {
    ++counts.unlabelled;
    return std::nullopt;
  }
  const int64_t room = std::max(rule.most_tokens - special_, int64_t{0});
  const bool cut = std::ssize(ids) > room && rule.overlong == config::Overlong::truncate;
  if (cut) {
    ids.resize(static_cast<size_t>(room));
    labels.resize(ids.size());
    ++(has_label(labels) ? counts.truncated : counts.dropped);
    if (!has_label(labels)) return std::nullopt;
  }
  text::PlacedTexts placed = text::place_texts(tokenizer_, ids);
  Example example{std::move(placed.encoding.ids), {}, std::move(placed.encoding.type_ids)};
  example.learned.assign(example.ids.size(), 0);
  example.labels.assign(example.ids.size(), -1);
  std::ranges::copy(labels, example.labels.begin() + placed.first_begin);
  if (!keep_length(example, rule, counts)) return std::nullopt;
  return example;
}

std::vector<Example> read_tagged(const std::vector<std::string>& files,
                                 const text::Tokenizer& tokenizer,
                                 const std::vector<std::string>& labels, const LengthRule& rule,
                                 ExampleCounts& counts) {
  std::vector<Example> examples;
  TaggedEncoder encoder(tokenizer);
  const auto take = [&](const TaggedWords& text) {
    ++counts.lines;
    if (auto example = encoder.encode(text, rule, counts)) examples.push_back(std::move(*example));
  };
  for (const std::string& file : files) {
    if (is_json_lines(file)) {
      for_each_line(file, kMostTaggedBytes,
                    [&](std::string_view line) { take(parse_tagged_line(line, labels)); });
    } else {
      for_each_tagged_text(file, labels, take);
    }
  }
  return examples;
}

}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
#include "tasks/yaml_tree.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/file.h"
#include "tokenize/regex.h"

namespace megalith::tasks {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t{1} << 20;
constexpr int kMostLevels = 16;
constexpr int64_t kMostNodes = 100'000;

/// Words that YAML 1.1 takes for truth, in the spellings that PyYAML knows.
std::optional<bool> truth_of(std::string_view word) {
  for (const auto& [yes, no] : {std::pair{"yes", "no"}, {"true", "false"}, {"on", "off"}}) {
    for (const bool truth : {true, false}) {
      std::string spelled = truth ? yes : no;
      if (word == spelled) return truth;
      spelled[0] = static_cast<char>(spelled[0] - 32);
      if (word == spelled) return truth;
      std::ranges::transform(spelled, spelled.begin(),
                             [](char c) { return static_cast<char>(c >= 'a' ? c - 32 : c); });
      if (word == spelled) return truth;
    }
  }
  return {};
}

/// No plain scalar has a line end.
bool fits(const tokenize::Regex& whole_text, std::string_view text) {
  return text.size() <= 64 && !whole_text.groups(text).empty();
}

bool is_decimal(std::string_view text) {
  static const tokenize::Regex kForm(R"(^[-+]?(0|[1-9][0-9]*)$)", "",
                                     tokenize::Regex::Syntax::python);
  return fits(kForm, text);
}

bool is_real(std::string_view text) {
  static const tokenize::Regex kForm(R"(^([-+]?[0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?$)", "",
                                     tokenize::Regex::Syntax::python);
  return fits(kForm, text);
}

/// Numbers and dates in forms that nobody needs in a task: binary, octal and hexadecimal ones, with
/// underscores, in base 60, infinite; 2026-01-31.
bool is_other_value(std::string_view text) {
  static const tokenize::Regex kForm(
      R"(^([-+]?(0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*(:[0-5]?[0-9])*))"
      R"(|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])*\.[0-9_]*([eE][-+][0-9]+)?)"
      R"(|\.[0-9][0-9_]*([eE][-+][0-9]+)?)"
      R"(|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))"
      R"(|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}.*)?)$)",
      "", tokenize::Regex::Syntax::python);
  return fits(kForm, text);
}

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return {};
  return number;
}

/// A node that is an alias of others counts again wherever it stands, within itself too.
void require_bounded(const YAML::Node& node, const YamlNode& tree, int levels, int64_t& nodes) {
  if (levels > kMostLevels) tree.fail("is nested deeper than {} levels", kMostLevels);
  if (++nodes > kMostNodes) tree.fail("has more than {} values", kMostNodes);
  if (!node.IsSequence() && !node.IsMap()) return;
  for (const auto& part : node)
    require_bounded(node.IsMap() ? part.second : YAML::Node(part), tree, levels + 1, nodes);
}

}  // namespace

void YamlNode::fail_with(const std::string& what) const {
  throw UserError("{}:{}: {}{}{}", file_, node_.Mark().line + 1, path_, path_.empty() ? "" : ": ",
                  what);
}

void YamlNode::require_no_tag() const {
  const std::string& tag = node_.Tag();
  if (tag == "!function")
    fail("!function {} calls Python, and there is none here",
         node_.IsScalar() ? node_.Scalar() : "");
  if (!tag.empty() && tag != "?" && tag != "!") fail("the tag {} is not supported", tag);
}

const std::string& YamlNode::scalar() const {
  require_no_tag();
  if (!node_.IsScalar()) fail("is no text and no number");
  return node_.Scalar();
}

/// Not in quotes: may be a number, a truth, or nothing.
bool YamlNode::is_plain() const { return node_.IsScalar() && node_.Tag() == "?"; }

bool YamlNode::is_null() const {
  if (node_.IsNull() || !node_.IsDefined()) return true;
  if (!is_plain()) return false;
  const std::string& word = node_.Scalar();
  return word.empty() || word == "~" || word == "null" || word == "Null" || word == "NULL";
}

std::optional<int64_t> YamlNode::whole() const {
  return is_plain() && is_decimal(node_.Scalar()) ? number_in<int64_t>(node_.Scalar())
                                                  : std::nullopt;
}

std::optional<double> YamlNode::number() const {
  const bool is_number = is_plain() && (is_decimal(node_.Scalar()) || is_real(node_.Scalar()));
  return is_number ? number_in<double>(node_.Scalar()) : std::nullopt;
}

bool YamlNode::is_text() const {
  if (!node_.IsScalar()) return false;
  const std::string& value = node_.Scalar();
  return !is_plain() || !(is_null() || number() || truth_of(value) || is_other_value(value));
}

std::string YamlNode::text() const {
  const std::string& value = scalar();
  if (!is_text()) fail("{} is no text for YAML; put it into quotes", value);
  return value;
}

bool YamlNode::truth() const {
  const std::optional<bool> value = is_plain() ? truth_of(scalar()) : std::nullopt;
  if (!value) fail("is neither true nor false");
  return *value;
}

std::vector<YamlNode> YamlNode::items() const {
  require_no_tag();
  if (!is_list()) fail("is no list");
  std::vector<YamlNode> items;
  for (const YAML::Node& node : node_)
    items.emplace_back(node, file_, fmt::format("{}[{}]", path_, items.size()));
  return items;
}

std::vector<std::string> YamlNode::texts() const {
  if (!is_list()) return {text()};
  std::vector<std::string> texts;
  for (const YamlNode& item : items()) texts.push_back(item.text());
  return texts;
}

std::vector<std::pair<std::string, YamlNode>> YamlNode::entries() const {
  require_no_tag();
  if (!is_map()) fail("is no map of keys and values");
  std::vector<std::pair<std::string, YamlNode>> entries;
  for (const auto& entry : node_) {
    if (!entry.first.IsScalar()) fail("has a key that is no text");
    const std::string key = entry.first.Scalar();
    entries.emplace_back(key,
                         YamlNode(entry.second, file_, path_.empty() ? key : path_ + "." + key));
  }
  return entries;
}

nlohmann::ordered_json YamlNode::json() const {
  if (is_null()) return nullptr;
  if (is_list()) {
    auto list = nlohmann::ordered_json::array();
    for (const YamlNode& item : items()) list.push_back(item.json());
    return list;
  }
  if (is_map()) {
    auto map = nlohmann::ordered_json::object();
    for (const auto& [key, value] : entries()) map[key] = value.json();
    return map;
  }
  if (const auto value = whole()) return *value;
  if (const auto value = number()) return *value;
  if (is_plain() && truth_of(node_.Scalar())) return *truth_of(node_.Scalar());
  return scalar();
}

namespace {

void merge(const fs::path& file, std::vector<fs::path>& open, YamlEntries& into) {
  const std::string name = file.string();
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(file, error);
  if (std::ranges::find(open, whole) != open.end()) throw UserError("{}: includes itself", name);
  open.push_back(whole);
  YAML::Node root;
  try {
    root = YAML::Load(read_file(file, kMostBytes));
  } catch (const YAML::Exception& fault) {
    throw UserError("{}:{}: {}", name, fault.mark.line + 1, fault.msg);
  }
  const YamlNode tree(root, name, "");
  int64_t nodes = 0;
  require_bounded(root, tree, 1, nodes);
  for (const auto& [key, value] : tree.entries()) {
    if (key != "include") continue;
    for (const std::string& other : value.texts()) merge(file.parent_path() / other, open, into);
  }
  std::set<std::string> seen;
  for (const auto& [key, value] : tree.entries()) {
    if (!seen.insert(key).second) value.fail("is given twice");
    if (key != "include") into.insert_or_assign(key, value);
  }
  open.pop_back();
}

}  // namespace

YamlEntries read_yaml(const fs::path& file) {
  YamlEntries entries;
  std::vector<fs::path> open;
  merge(file, open, entries);
  return entries;
}

}  // namespace megalith::tasks

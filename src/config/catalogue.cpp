// SPDX-License-Identifier: Apache-2.0
// The list of keys and the documentation page, from the same visit.
#include <fmt/format.h>

#include "config/recipe.h"

namespace megalith::config {

using settings::FieldInfo;
using settings::join_path;
using settings::ListReference;
using settings::type_text;
using settings::value_text;
using settings::ValueReference;
namespace {

class KeyLister : public FieldVisitor {
 public:
  KeyLister(std::string path, std::vector<std::string>& keys)
      : path_(std::move(path)), keys_(keys) {}

 protected:
  void on_value(const FieldInfo& info, const ValueReference&) override {
    keys_.push_back(join_path(path_, info.name));
  }
  void on_section(const FieldInfo& info, FunctionRef<void(FieldVisitor&)> visit) override {
    KeyLister inner(join_path(path_, info.name), keys_);
    visit(inner);
  }
  void on_list(const FieldInfo& info, const ListReference& list) override {
    const std::string path = join_path(path_, info.name);
    keys_.push_back(path);
    KeyLister inner(path + "[]", keys_);
    list.visit_default(inner);
  }

 private:
  std::string path_;
  std::vector<std::string>& keys_;
};

/// A cell of a Markdown table: bars end a cell, angle brackets begin HTML.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*' || c == '_') out += '\\';
    out += c;
  }
  return out;
}

class PageWriter : public FieldVisitor {
 public:
  explicit PageWriter(std::string path) : path_(std::move(path)) {}

  /// The page: this level's table, then the sections below it.
  std::string page() const {
    constexpr std::string_view kHead = "| key | type | default | meaning |\n|---|---|---|---|\n";
    return (rows_.empty() ? "" : std::string(kHead) + rows_ + "\n") + sections_;
  }

 protected:
  void on_value(const FieldInfo& info, const ValueReference& value) override {
    std::string type = type_text(value);
    if (const std::string range = info.constraint.text(); !range.empty()) type += ", " + range;
    row(info, type, value_text(value));
  }
  void on_section(const FieldInfo& info, FunctionRef<void(FieldVisitor&)> visit) override {
    PageWriter inner(join_path(path_, info.name));
    visit(inner);
    sections_ += fmt::format("## {}\n\n{}\n\n{}", inner.path_, info.meaning, inner.page());
  }
  void on_list(const FieldInfo& info, const ListReference& list) override {
    row(info, "list", "[]");
    PageWriter inner(join_path(path_, info.name) + "[]");
    list.visit_default(inner);
    rows_ += inner.rows_;
  }

 private:
  void row(const FieldInfo& info, std::string_view type, std::string_view value) {
    rows_ += fmt::format("| `{}` | {} | `{}` | {} |\n", join_path(path_, info.name), cell(type),
                         value, cell(info.meaning));
  }

  std::string path_, rows_, sections_;
};

}  // namespace

std::vector<std::string> keys() {
  std::vector<std::string> keys;
  KeyLister lister("", keys);
  Recipe{}.visit(lister);
  return keys;
}

std::string documentation() {
  PageWriter writer("");
  Recipe{}.visit(writer);
  return "# Recipe keys\n\nA recipe is a YAML file of these keys; `--set key.path=value` changes "
         "one on the\n"
         "command line. Every key has a default.\n\n" +
         writer.page();
}

}  // namespace megalith::config

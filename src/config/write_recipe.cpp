// SPDX-License-Identifier: Apache-2.0
// Recipes as YAML (yaml-cpp) and JSON. Numbers are the shortest text that reads back to the same
// bits.
#include <yaml-cpp/emitter.h>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "config/recipe.h"
#include "settings/fields_json.h"

namespace megalith::config {

using settings::FieldInfo;
using settings::fields_json;
using settings::ListReference;
using settings::value_text;
using settings::ValueReference;
using settings::VisitFields;
namespace {

class YamlWriter : public FieldVisitor {
 public:
  explicit YamlWriter(YAML::Emitter& out) : out_(out) { out_ << YAML::BeginMap; }
  void finish() { out_ << YAML::EndMap; }

 protected:
  void on_value(const FieldInfo& info, const ValueReference& value) override {
    out_ << YAML::Key << std::string(info.name) << YAML::Value;
    if (const auto* text = std::get_if<std::string*>(&value)) {
      quote(**text);
    } else if (const auto* texts = std::get_if<std::vector<std::string>*>(&value)) {
      out_ << YAML::Flow << YAML::BeginSeq;
      for (const std::string& item : **texts) quote(item);
      out_ << YAML::EndSeq;
    } else if (const auto* numbers = std::get_if<std::vector<double>*>(&value)) {
      out_ << YAML::Flow << YAML::BeginSeq;
      for (const double& item : **numbers) out_ << number_text(item);
      out_ << YAML::EndSeq;
    } else if (const std::string word = value_text(value); word == "null") {
      out_ << YAML::Null;  // as a text it would be quoted
    } else {
      out_ << word;
    }
  }

  void on_section(const FieldInfo& info, FunctionRef<void(FieldVisitor&)> visit) override {
    out_ << YAML::Key << std::string(info.name) << YAML::Value;
    map(visit);
  }

  void on_list(const FieldInfo& info, const ListReference& list) override {
    out_ << YAML::Key << std::string(info.name) << YAML::Value;
    if (list.size() == 0) {
      out_ << YAML::Flow << YAML::BeginSeq << YAML::EndSeq;
      return;
    }
    out_ << YAML::BeginSeq;
    for (size_t i = 0; i < list.size(); ++i) map([&](FieldVisitor& v) { list.visit_item(i, v); });
    out_ << YAML::EndSeq;
  }

 private:
  void map(VisitFields visit) {
    YamlWriter inner(out_);
    visit(inner);
    inner.finish();
  }
  static std::string number_text(double number) { return value_text(&number); }
  /// Always in quotes, so that no text reads as a number, null or alias.
  void quote(const std::string& text) { out_ << YAML::DoubleQuoted << text; }

  YAML::Emitter& out_;
};

}  // namespace

std::string to_yaml(const Recipe& recipe) {
  Recipe copy = recipe;  // visits are not const
  YAML::Emitter out;
  YamlWriter writer(out);
  copy.visit(writer);
  writer.finish();
  MEGA_CHECK(out.good(), "{}", out.GetLastError());
  return std::string(out.c_str(), out.size()) + "\n";
}

std::string to_json(const Recipe& recipe) {
  Recipe copy = recipe;
  return fields_json([&](FieldVisitor& v) { copy.visit(v); }).dump();
}

}  // namespace megalith::config

// SPDX-License-Identifier: Apache-2.0
#include "settings/fields_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "settings/reader.h"

namespace megalith::settings {
namespace {

class JsonWriter : public FieldVisitor {
 public:
  nlohmann::ordered_json take() { return std::move(object_); }

 protected:
  void on_value(const FieldInfo& info, const ValueReference& value) override {
    object_[std::string(info.name)] = std::visit([](auto v) { return to_value(v); }, value);
  }
  void on_section(const FieldInfo& info, FunctionRef<void(FieldVisitor&)> visit) override {
    JsonWriter inner;
    visit(inner);
    object_[std::string(info.name)] = inner.take();
  }
  void on_list(const FieldInfo& info, const ListReference& list) override {
    auto items = nlohmann::ordered_json::array();
    for (size_t i = 0; i < list.size(); ++i) {
      JsonWriter inner;
      list.visit_item(i, inner);
      items.push_back(inner.take());
    }
    object_[std::string(info.name)] = std::move(items);
  }

 private:
  template <class T>
  static nlohmann::ordered_json to_value(const T* value) {
    return *value;
  }
  static nlohmann::ordered_json to_value(const std::optional<double>* value) {
    return value->has_value() ? nlohmann::ordered_json(**value) : nlohmann::ordered_json(nullptr);
  }
  static nlohmann::ordered_json to_value(const std::optional<bool>* value) {
    return value->has_value() ? nlohmann::ordered_json(**value) : nlohmann::ordered_json(nullptr);
  }
  static nlohmann::ordered_json to_value(const EnumReference& value) {
    return value.names[value.get(value.value)];
  }

  nlohmann::ordered_json object_ = nlohmann::ordered_json::object();
};

}  // namespace

nlohmann::ordered_json fields_json(VisitFields visit) {
  JsonWriter writer;
  visit(writer);
  return writer.take();
}

nlohmann::ordered_json without_defaults(const nlohmann::ordered_json& object,
                                        const nlohmann::ordered_json& defaults) {
  auto changed = nlohmann::ordered_json::object();
  for (const auto& [key, value] : object.items()) {
    const auto found = defaults.find(key);
    if (found == defaults.end()) {
      changed[key] = value;
    } else if (value.is_object() && found->is_object()) {
      if (auto inner = without_defaults(value, *found); !inner.empty()) changed[key] = inner;
    } else if (value != *found) {
      changed[key] = value;
    }
  }
  return changed;
}

void read_fields_json(std::string_view text, const std::string& where, VisitFields visit) {
  std::vector<Fault> faults;
  const Node root = parse_tree(text, where, faults);  // JSON is YAML
  if (root.kind != Node::Kind::map) throw UserError("{}: must be an object", where);
  Positions positions;
  read_fields(root, visit, {}, positions, faults);
  for (Fault& fault : faults) fault.at.where = where;  // its lines and columns are nobody's
  if (!faults.empty()) throw UserError("{}", one_line(faults));
}

}  // namespace megalith::settings

// SPDX-License-Identifier: Apache-2.0
// The visitor that reads. A map's keys are known once its struct has been visited; what is left
// over is unknown, and answered with the nearest path of the whole recipe.
#include "settings/reader.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/nearest.h"

namespace megalith::settings {
namespace {

template <class T>
bool parse_whole(std::string_view text, T& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  T parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  value = parsed;
  return true;
}

class Reader : public FieldVisitor {
 public:
  Reader(const Node& map, std::string path, const std::vector<std::string>& known,
         Positions& positions, std::vector<Fault>& faults)
      : map_(map), path_(std::move(path)), known_(known), positions_(positions), faults_(faults) {}

  void refuse_unknown_keys() {
    for (const Entry& entry : map_.entries) {
      if (visited_.contains(entry.key)) continue;
      const std::string path = join_path(path_, entry.key);
      std::string message = "unknown key";
      if (faults_.size() < kMostFaults)
        message += fmt::format("; the nearest known key is {}", suggest(path));
      faults_.push_back({path, entry.key_at, std::move(message)});
    }
  }

 protected:
  void on_value(const FieldInfo& info, const ValueReference& value) override {
    const Node* node = take(info.name);
    if (node == nullptr) return;
    const std::string path = join_path(path_, info.name);
    positions_[path] = node->at;
    const std::string message =
        std::visit([&](auto target) { return read(*node, target, info.constraint); }, value);
    if (!message.empty()) faults_.push_back({path, node->at, message});
  }

  void on_section(const FieldInfo& info, FunctionRef<void(FieldVisitor&)> visit) override {
    const Node* node = take(info.name);
    // A heading whose keys are all commented out is an empty section.
    if (node == nullptr || node->kind == Node::Kind::null) return;
    read_map(*node, join_path(path_, info.name), visit);
  }

  void on_optional_section(const FieldInfo& info, bool /*present*/,
                           FunctionRef<void(FieldVisitor&)> visit) override {
    on_section(info, visit);  // which asks for the fields only where the key is
  }

  void on_list(const FieldInfo& info, const ListReference& list) override {
    const Node* node = take(info.name);
    if (node == nullptr) return;
    const std::string path = join_path(path_, info.name);
    positions_[path] = node->at;
    if (node->kind == Node::Kind::null) {
      faults_.push_back({path, node->at, "has no value; give one or remove the key"});
    } else if (node->kind == Node::Kind::sequence) {
      list.resize(node->items.size());
      for (size_t i = 0; i < node->items.size(); ++i) read_item(node->items[i], path, i, list);
    } else {
      list.resize(1);
      read_item(*node, path, 0, list);
    }
  }

 private:
  void read_map(const Node& node, const std::string& path, VisitFields visit) {
    if (node.kind != Node::Kind::map) {
      faults_.push_back(
          {path, node.at, fmt::format("must be a map of keys and values, not {}", describe(node))});
      return;
    }
    Reader reader(node, path, known_, positions_, faults_);
    visit(reader);
    reader.refuse_unknown_keys();
  }

  void read_item(const Node& node, const std::string& list_path, size_t index,
                 const ListReference& list) {
    const std::string path = fmt::format("{}.{}", list_path, index);
    auto visit = [&](FieldVisitor& v) { list.visit_item(index, v); };
    if (node.kind != Node::Kind::scalar) return read_map(node, path, visit);
    Node map;
    map.kind = Node::Kind::map;
    map.at = node.at;
    map.entries.push_back({std::string(list.short_key), node.at, node});
    read_map(map, path, visit);
  }

  const Node* take(std::string_view name) {
    visited_.emplace(name);
    const Node* node = map_.find(name);
    return node == nullptr || node->kind == Node::Kind::absent ? nullptr : node;
  }

  /// Keys of the same section first: of equally near ones the reader means a neighbour.
  std::string suggest(const std::string& path) const {
    std::vector<std::string> candidates;
    for (std::string_view name : visited_) candidates.push_back(join_path(path_, name));
    candidates.insert(candidates.end(), known_.begin(), known_.end());
    return nearest(path, candidates);
  }

  static std::string wrong_type(const Node& node, std::string_view wanted) {
    if (node.kind == Node::Kind::null)
      return fmt::format("has no value; give {} or remove the key", wanted);
    return fmt::format("must be {}, not {}{}", wanted, describe(node),
                       node.quoted ? " in quotes" : "");
  }

  static std::string out_of_range(const Node& node, const Constraint& constraint) {
    return fmt::format("must be {}, not {}", constraint.text(), node.text);
  }

  static bool plain(const Node& node) { return node.kind == Node::Kind::scalar && !node.quoted; }

  static std::string read(const Node& node, int64_t* target, const Constraint& constraint) {
    int64_t value = 0;
    if (!plain(node)) return wrong_type(node, "an integer");
    if (!parse_whole(node.text, value)) {
      // 1e9 tokens: a number in exponent form that is an integer.
      double number = 0;
      if (!parse_whole(node.text, number) || !(std::fabs(number) <= 0x1p53) ||
          number != std::floor(number))
        return wrong_type(node, "an integer");
      value = static_cast<int64_t>(number);
    }
    if (!constraint.allows(static_cast<double>(value))) return out_of_range(node, constraint);
    *target = value;
    return "";
  }

  static std::string read(const Node& node, double* target, const Constraint& constraint) {
    double value = 0;
    if (!plain(node) || !parse_whole(node.text, value) || !std::isfinite(value))
      return wrong_type(node, "a finite number");
    if (!constraint.allows(value)) return out_of_range(node, constraint);
    *target = value;
    return "";
  }

  static std::string read(const Node& node, std::optional<double>* target,
                          const Constraint& constraint) {
    if (node.kind == Node::Kind::null) {
      target->reset();
      return "";
    }
    double value = 0;
    std::string message = read(node, &value, constraint);
    if (message.empty()) *target = value;
    return message;
  }

  static std::string read(const Node& node, bool* target, const Constraint&) {
    if (!plain(node)) return wrong_type(node, "true or false");
    if (node.text == "true" || node.text == "True" || node.text == "TRUE") {
      *target = true;
    } else if (node.text == "false" || node.text == "False" || node.text == "FALSE") {
      *target = false;
    } else {
      return wrong_type(node, "true or false");
    }
    return "";
  }

  static std::string read(const Node& node, std::optional<bool>* target,
                          const Constraint& constraint) {
    if (node.kind == Node::Kind::null) {
      target->reset();
      return "";
    }
    bool value = false;
    std::string message = read(node, &value, constraint);
    if (message.empty()) *target = value;
    return message;
  }

  static std::string read(const Node& node, std::string* target, const Constraint&) {
    if (node.kind != Node::Kind::scalar) return wrong_type(node, "a text");
    *target = node.text;
    return "";
  }

  static std::string read(const Node& node, std::vector<std::string>* target, const Constraint&) {
    if (node.kind == Node::Kind::scalar) {
      *target = {node.text};
      return "";
    }
    if (node.kind != Node::Kind::sequence) return wrong_type(node, "a list of texts");
    std::vector<std::string> texts;
    for (const Node& item : node.items) {
      if (item.kind != Node::Kind::scalar) return wrong_type(item, "a list of texts");
      texts.push_back(item.text);
    }
    *target = std::move(texts);
    return "";
  }

  static std::string read(const Node& node, std::vector<double>* target,
                          const Constraint& constraint) {
    if (node.kind != Node::Kind::sequence) return wrong_type(node, "a list of numbers");
    std::vector<double> numbers;
    for (const Node& item : node.items) {
      double number = 0;
      if (std::string message = read(item, &number, constraint); !message.empty()) return message;
      numbers.push_back(number);
    }
    *target = std::move(numbers);
    return "";
  }

  static std::string read(const Node& node, EnumReference target, const Constraint&) {
    const std::vector<std::string> names(target.names.begin(), target.names.end());
    const std::string wanted =
        names.size() == 1 ? names[0] : fmt::format("one of {}", fmt::join(names, ", "));
    if (node.kind != Node::Kind::scalar) return wrong_type(node, wanted);
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == node.text) {
        target.set(target.value, i);
        return "";
      }
    return fmt::format("must be {}, not {}; the nearest is {}", wanted, describe(node),
                       nearest(node.text, names));
  }

  const Node& map_;
  std::string path_;
  const std::vector<std::string>& known_;
  Positions& positions_;
  std::vector<Fault>& faults_;
  std::set<std::string, std::less<>> visited_;
};

}  // namespace

void read_fields(const Node& root, VisitFields visit, const std::vector<std::string>& known,
                 Positions& positions, std::vector<Fault>& faults) {
  MEGA_CHECK(root.kind == Node::Kind::map);
  Reader reader(root, "", known, positions, faults);
  visit(reader);
  reader.refuse_unknown_keys();
}

}  // namespace megalith::settings

// SPDX-License-Identifier: Apache-2.0
// Builds the tree from yaml-cpp's events.
#include "settings/tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_set>

#include "base/error.h"

namespace megalith::settings {
namespace {

constexpr size_t kLargestText = 1 << 20;
constexpr size_t kDeepest = 32;

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view name, std::vector<Fault>& faults) : name_(name), faults_(faults) {}
  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_extras(mark, "", anchor);
    scalar(mark, Node::Kind::null, "", false);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fault(mark, "aliases (*name) are not allowed; write the value out");
    scalar(mark, Node::Kind::null, "", false);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_extras(mark, tag, anchor);
    // Written "\0" in quotes. A path would end there.
    if (value.find('\0') != std::string::npos) fault(mark, "contains a zero byte; remove it");
    const bool quoted = tag == "!";
    const bool null =
        !quoted && (value == "~" || value == "null" || value == "Null" || value == "NULL");
    scalar(mark, null ? Node::Kind::null : Node::Kind::scalar, value, quoted);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_extras(mark, tag, anchor);
    open(mark, Node::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_extras(mark, tag, anchor);
    open(mark, Node::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A collection that is still open; a map waits for keys and values in turn.
  struct Open {
    Node node;
    bool has_key = false;
    bool skip = false;  // the value of a refused key
    std::string key;
    Position key_at;
    std::unordered_set<std::string> seen = {};
  };

  Position position(const YAML::Mark& mark) const {
    const int line = mark.line + 1, column = mark.column + 1;
    return {fmt::format("{}:{}:{}", name_, line, column), line, column};
  }

  std::string path() const {
    std::string path;
    for (const Open& open : stack_)
      if (open.has_key) path += path.empty() ? open.key : "." + open.key;
    return path;
  }

  void fault(const YAML::Mark& mark, std::string message) {
    faults_.push_back({path(), position(mark), std::move(message)});
  }

  void refuse_extras(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) fault(mark, "anchors (&name) are not allowed; remove it");
    if (!tag.empty() && tag != "?" && tag != "!")
      fault(mark, fmt::format("the tag {} is not allowed; remove it", tag));
  }

  bool expects_key() const {
    return !stack_.empty() && stack_.back().node.kind == Node::Kind::map && !stack_.back().has_key;
  }

  void scalar(const YAML::Mark& mark, Node::Kind kind, const std::string& text, bool quoted) {
    if (expects_key()) return key(mark, kind, text);
    add({.kind = kind,
         .text = text,
         .quoted = quoted,
         .at = position(mark),
         .items = {},
         .entries = {}});
  }

  void key(const YAML::Mark& mark, Node::Kind kind, const std::string& text) {
    Open& map = stack_.back();
    map.skip = true;
    if (kind == Node::Kind::null) {
      fault(mark, "a key must be a word");
    } else if (text == "<<") {
      fault(mark, "merge keys (<<) are not allowed; write the values out");
    } else if (!map.seen.insert(text).second) {
      map.has_key = true;
      map.key = text;
      fault(mark, "is given twice; keep one");
    } else {
      map.skip = false;
    }
    map.has_key = true;
    map.key = text;
    map.key_at = position(mark);
  }

  void add(Node node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& top = stack_.back();
    if (top.node.kind == Node::Kind::sequence) {
      top.node.items.push_back(std::move(node));
      return;
    }
    if (!top.skip) top.node.entries.push_back({top.key, top.key_at, std::move(node)});
    top.has_key = false;
  }

  void open(const YAML::Mark& mark, Node::Kind kind) {
    if (expects_key())
      throw UserError("{}: a key must be a word, not a list or map", position(mark).where);
    if (stack_.size() >= kDeepest)
      throw UserError("{}: nested more than {} levels deep", position(mark).where, kDeepest);
    Open open;
    open.node.kind = kind;
    open.node.at = position(mark);
    stack_.push_back(std::move(open));
  }

  void close() {
    Node node = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(node));
  }

  std::string name_;
  std::vector<Fault>& faults_;
  std::vector<Open> stack_;
  Node root_;
};

void check_text(std::string_view text, std::string_view name) {
  if (text.size() > kLargestText)
    throw UserError("{}: {} bytes; a recipe has at most {}", name, text.size(), kLargestText);
  if (text.find('\0') != std::string_view::npos)
    throw UserError("{}: contains a zero byte; recipes are UTF-8 text", name);
  if (!is_text(text)) throw UserError("{}: is not valid UTF-8 text", name);
}

}  // namespace

bool is_text(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return false;
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

Node* Node::find(std::string_view key) {
  for (Entry& entry : entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}
const Node* Node::find(std::string_view key) const { return const_cast<Node*>(this)->find(key); }

Node parse_tree(std::string_view text, std::string_view name, std::vector<Fault>& faults) {
  check_text(text, name);
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(name, faults);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      Node empty;
      empty.kind = Node::Kind::map;
      return empty;
    }
    Node root = builder.take();
    if (parser.HandleNextDocument(builder))
      throw UserError("{}: holds more than one document (---); keep one", name);
    return root;
  } catch (const YAML::Exception& error) {
    throw UserError("{}:{}:{}: not valid YAML: {}", name, error.mark.line + 1,
                    error.mark.column + 1, error.msg);
  }
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
    case Node::Kind::absent:
      return "nothing";
    case Node::Kind::sequence:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      return nlohmann::json(node.text).dump();
  }
  throw InternalError("unknown kind of node");
}

}  // namespace megalith::settings

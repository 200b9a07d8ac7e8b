// SPDX-License-Identifier: Apache-2.0
// `--set a.b=value` changes the tree before it is read, so that both ways of giving a value meet
// the same checks.
#include "settings/override.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace megalith::settings {
namespace {

/// Stamps every node of a value with the option it came from.
void place(Node& node, const Position& at) {
  node.at = at;
  for (Node& item : node.items) place(item, at);
  for (Entry& entry : node.entries) {
    entry.key_at = at;
    place(entry.value, at);
  }
}

Node parse_value(std::string_view text, const Position& at, std::vector<Fault>& faults) {
  Node node;
  if (text.empty()) {
    node.kind = Node::Kind::absent;
  } else if (std::string_view("[{\"'").find(text.front()) == std::string_view::npos) {
    // As it stands: "#", ": " and the like mean nothing on a command line.
    node.kind = text == "null" || text == "~" ? Node::Kind::null : Node::Kind::scalar;
    node.text = text;
  } else {
    node = parse_tree(text, at.where, faults);
  }
  place(node, at);
  return node;
}

/// The item that `word` picks from a list, or null if it is no number of one.
Node* pick_item(Node& list, std::string_view word) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
  if (error != std::errc() || end != word.data() + word.size() || index >= list.items.size())
    return nullptr;
  return &list.items[index];
}

/// The node under `word`, made if it is not there.
Node* descend(Node& parent, std::string_view word, const Position& at) {
  if (parent.kind == Node::Kind::sequence) return pick_item(parent, word);
  if (parent.kind != Node::Kind::map) {
    parent = Node{};
    parent.kind = Node::Kind::map;
    parent.at = at;
  }
  if (Node* found = parent.find(word)) return found;
  parent.entries.push_back({std::string(word), at, Node{}});
  return &parent.entries.back().value;
}

bool gives_a_number(const Node& node) {
  return node.kind != Node::Kind::absent && !node.text.starts_with('-');
}

}  // namespace

void apply_override(Node& root, const Override& override, int ordinal, std::vector<Fault>& faults) {
  const std::string_view text = override.text;
  const Position at{fmt::format("{} {}", override.option, text), 0, ordinal};
  if (!is_text(text)) {
    faults.push_back({"", at, "is not valid UTF-8 text"});
    return;
  }
  const size_t equals = text.find('=');
  const std::string_view path = text.substr(0, equals);
  if (equals == std::string_view::npos || path.empty()) {
    faults.push_back({"", at, "write it as key.path=value"});
    return;
  }
  Node value = parse_value(text.substr(equals + 1), at, faults);
  Node* node = &root;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    const std::string_view word = path.substr(begin, dot - begin);
    Node* next = word.empty() ? nullptr : descend(*node, word, at);
    if (next == nullptr) {
      faults.push_back({std::string(path.substr(0, dot)), at,
                        word.empty() ? std::string("a key is empty; write it as key.path=value")
                                     : fmt::format("the list has no item {}", word)});
      return;
    }
    if (node->kind == Node::Kind::sequence && value.kind == Node::Kind::absent &&
        dot == path.size()) {
      faults.push_back({std::string(path), at, "an item of a list stays; give the list anew"});
      return;
    }
    node = next;
    begin = dot + 1;
  }
  *node = std::move(value);
}

void drop_replaced(Node& root, std::string_view section, std::span<const std::string_view> keys) {
  Node* const map = root.find(section);
  if (map == nullptr) return;
  const auto is_one = [&](const Entry& entry) {
    return std::ranges::find(keys, entry.key) != keys.end();
  };
  const auto is_of_the_file = [](const Entry& entry) { return entry.value.at.line > 0; };
  const bool given = std::ranges::any_of(map->entries, [&](const Entry& entry) {
    return is_one(entry) && !is_of_the_file(entry) && gives_a_number(entry.value);
  });
  if (!given) return;
  std::erase_if(map->entries,
                [&](const Entry& entry) { return is_one(entry) && is_of_the_file(entry); });
}

}  // namespace megalith::settings

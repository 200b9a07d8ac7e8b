// SPDX-License-Identifier: Apache-2.0
// A YAML document as a tree whose nodes know where they were written. yaml-cpp parses; what a
// recipe must not contain (aliases, anchors, tags, merge keys, duplicate keys, deep nesting) is
// refused as the events arrive, before anything is built from them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "settings/fault.h"

namespace megalith::settings {

struct Entry;

struct Node {
  /// `absent`: a key that an override removed. It must be a known key all the same.
  enum class Kind { null, scalar, sequence, map, absent };
  Kind kind = Kind::null;
  std::string text;     // of a scalar
  bool quoted = false;  // then it is a text whatever it looks like
  Position at;
  std::vector<Node> items;     // of a sequence
  std::vector<Entry> entries;  // of a map, in the order written

  /// The value under `key` of a map, or null.
  Node* find(std::string_view key);
  const Node* find(std::string_view key) const;
};

struct Entry {
  std::string key;
  Position key_at;
  Node value;
};

/// Parses one document (an empty text gives an empty map). Faults that leave the rest readable are
/// added to `faults`; a syntax error, too much text or too deep nesting is a UserError at once.
Node parse_tree(std::string_view text, std::string_view name, std::vector<Fault>& faults);

/// Whether `text` can stand in a recipe: UTF-8 without zero bytes.
bool is_text(std::string_view text);

/// "a map", "a list", "the text \"x\"", for messages.
std::string describe(const Node& node);

}  // namespace megalith::settings

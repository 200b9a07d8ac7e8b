// SPDX-License-Identifier: Apache-2.0
// SentencePiece's compiled normalisation rules: a double array (darts-clone's layout) whose values
// are places in a text of results, each ended by a zero byte. What comes from a file is not
// trusted: every step is checked. The library takes the longest rule at each place;
// tokenizer.json's Precompiled goes by grapheme clusters.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::tokenize {

class CharsMap {
 public:
  /// Reads the rules; UserError, naming `where`, if they are cut off or their results no UTF-8.
  CharsMap(std::string_view compiled, std::string_view where);

  struct Rule {
    size_t length;            // of what it replaces
    std::string_view result;  // may be empty
  };
  /// The longest rule that `text` begins with.
  std::optional<Rule> longest(std::string_view text) const;
  /// True if no rule begins with these two ASCII characters or with the first alone.
  bool leaves_ascii(char first, char second) const {
    const size_t f = static_cast<uint8_t>(first), s = static_cast<uint8_t>(second);
    return (ascii_rules_[f][s / 64] >> (s % 64) & 1) == 0;
  }

  /// As Precompiled does. Appends the normalised text: of each grapheme cluster of up to five bytes
  /// what the rule of its shortest known beginning says (even if that drops the rest, as the peer
  /// does), of others that of each character. False if that takes away the start.
  bool append(std::string_view text, std::string& out) const;
  const std::string& compiled() const { return compiled_; }

 private:
  struct Node {
    uint32_t base;   // of its children
    bool has_value;  // at `base`
  };
  bool step(Node& node, char byte) const;
  std::optional<std::string_view> result_at(const Node& node) const;
  std::optional<std::string_view> find(std::string_view text) const;
  Node root() const;
  void append_cluster(std::string_view cluster, std::string& out) const;

  std::string compiled_;
  std::vector<uint32_t> units_;
  std::string results_;
  std::array<bool, 128> changes_ascii_{};  // this character is a rule, or may join a line feed
  std::array<std::array<uint64_t, 2>, 128> ascii_rules_{};  // of each two characters, a bit
};

}  // namespace megalith::tokenize

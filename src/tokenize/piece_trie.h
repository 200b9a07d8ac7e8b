// SPDX-License-Identifier: Apache-2.0
// A set of byte strings with a number each, walked byte by byte: which pieces of a vocabulary begin
// here, and which is the longest. It is a double array (Aoe 1989) whose children lie at
// `base ^ byte`, within one block of 256, so that a step is one load.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace megalith::tokenize {

class PieceTrie {
 public:
  struct Piece {
    std::string_view text;  // not empty
    int32_t value;          // >= 0
  };
  struct Found {
    int32_t value = -1;  // -1: none
    size_t length = 0;
  };

  /// A trie of nothing.
  PieceTrie() : PieceTrie(std::vector<Piece>{}) {}
  /// Of several pieces with one text the last counts. UserError beyond 2^26 nodes.
  explicit PieceTrie(std::vector<Piece> pieces);

  /// The longest piece that `text` begins with.
  Found longest_prefix(std::string_view text) const {
    Found found;
    uint32_t node = 0;
    for (size_t at = 0; at < text.size() && step(node, text[at]); ++at)
      if (units_[node].value >= 0) found = {units_[node].value, at + 1};
    return found;
  }
  /// The value of the piece, or -1.
  int32_t find(std::string_view text) const {
    uint32_t node = 0;
    for (const char c : text)
      if (!step(node, c)) return -1;
    return node == 0 ? -1 : units_[node].value;
  }
  /// Goes from a node (0 is the root) to its child; false if there is none.
  bool step(uint32_t& node, char byte) const {
    const uint8_t label = static_cast<uint8_t>(byte);
    const uint32_t next = units_[node].base ^ label;
    if (units_[next].parent != node) return false;
    node = next;
    return true;
  }
  /// The value of the piece that ends at a node, or -1.
  int32_t value(uint32_t node) const { return units_[node].value; }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  struct Unit {
    uint32_t base = 0;  // of the children
    uint32_t parent = kNone;
    int32_t value = -1;
  };
  struct Range {  // pieces that share their first `depth` bytes, which end at `node`
    uint32_t begin;
    uint32_t end;
    uint32_t depth;
    uint32_t node;
  };
  struct Block {
    uint32_t begin;
    uint32_t failures;
  };
  uint32_t place(const std::vector<uint8_t>& labels);
  bool fits(uint32_t base, const std::vector<uint8_t>& labels) const;

  std::vector<Unit> units_;
  std::vector<Block> open_;  // that may have room, while building
};

}  // namespace megalith::tokenize

// SPDX-License-Identifier: Apache-2.0
// Tokens that are recognised in raw text before it is cut into words: `<|endoftext|>` and whatever
// else a file adds. A trie is walked from every byte that can begin one; at the leftmost place that
// matches, the longest token wins. Cost: the length of the text plus, for each place that begins a
// token, at most the length of the longest token.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::text {

/// One entry of `added_tokens`.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where neither neighbour is a \w character
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = false;   // looked for in the normalised text, after the others
  bool special = false;      // left out by decode unless asked for
  bool in_text = true;       // looked for in a text; else only a template or a program writes it
};

/// A part of a text: one added token (id >= 0) or ordinary text (id < 0).
struct TextPart {
  int32_t id;
  std::string_view text;
};

class AddedTokenMatcher {
 public:
  void add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }
  /// Appends the parts of `text`, in order and without empty ones.
  void split(std::string_view text, std::vector<TextPart>& parts) const;

 private:
  struct Found {
    size_t begin;
    size_t end;
    int32_t index;  // into tokens_
  };
  struct Node {
    uint8_t byte;
    int32_t first_child;
    int32_t next_sibling;
    int32_t index;  // into tokens_, or -1
  };
  int32_t child(int32_t node, uint8_t byte) const;
  std::optional<Found> find(std::string_view text, size_t from) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{Node{0, -1, -1, -1}};
  std::array<bool, 256> begins_{};  // bytes that begin a token
  int only_begin_ = -1;             // the one such byte, if there is one only
};

}  // namespace megalith::text

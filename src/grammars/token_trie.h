// SPDX-License-Identifier: Apache-2.0
// A vocabulary's tokens as one trie of their bytes, in the order of a walk: what tokens may come
// next is found by one walk beside a grammar's machine, which skips what hangs below a byte that
// may not come. Most tokens of a vocabulary are short runs of plain characters, and within a JSON
// string all of them may come: where a grammar says so (Automaton::plain_run), they are allowed at
// once and only the trie of the others is walked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar_automata/automaton.h"

namespace megalith::grammars {

/// Masks have a bit for each id, the lowest bit of the first word for id 0.
inline size_t mask_words(int64_t num_ids) { return static_cast<size_t>((num_ids + 63) / 64); }

/// Nodes in preorder, without the root.
struct Trie {
  std::vector<uint8_t> byte;
  std::vector<uint16_t> depth;  // 1 for the first byte
  std::vector<uint32_t> skip;   // the node behind all that hang below
  std::vector<int32_t> id;      // a token that ends here, or -1
  size_t size() const { return byte.size(); }
};

/// Immutable; any number of threads may use one.
class TokenTrie {
 public:
  /// Bytes of a token; longer ones are never allowed.
  static constexpr size_t kMostTokenBytes = 512;

  /// `texts` by id: the bytes that each token adds to a text. None (special tokens, ids without a
  /// token): it is never allowed. `differs_first` by id, or empty: see TokenTexts.
  explicit TokenTrie(std::vector<std::string> texts, const std::vector<bool>& differs_first = {});

  int64_t num_ids() const { return static_cast<int64_t>(texts_.size()); }
  /// Needs an id below num_ids().
  std::string_view text(int32_t id) const { return texts_[static_cast<size_t>(id)]; }
  size_t longest() const { return longest_; }

  const Trie& all() const { return all_; }
  /// Without plain_tokens().
  const Trie& others() const { return others_; }
  /// A mask of the tokens that are at most kPlainRun whole plain characters.
  std::span<const uint64_t> plain_tokens() const { return plain_; }
  /// A mask of the tokens that add something else where a text begins.
  std::span<const uint64_t> differing_first() const { return differing_first_; }
  /// Calls `visit` with each id that ends at a node: those of one text all.
  template <typename Visit>
  void each_id(int32_t id, const Visit& visit) const {
    for (; id >= 0; id = same_text_[static_cast<size_t>(id)]) visit(id);
  }

 private:
  Trie build(std::span<const int32_t> ids) const;

  std::vector<std::string> texts_;
  std::vector<int32_t> same_text_;  // the next id with the text of this one, or -1
  std::vector<uint64_t> plain_, differing_first_;
  Trie all_, others_;
  size_t longest_ = 0;
};

}  // namespace megalith::grammars

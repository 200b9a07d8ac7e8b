// SPDX-License-Identifier: Apache-2.0
#include "grammars/token_trie.h"

#include <algorithm>

#include "characters/utf8.h"

namespace megalith::grammars {
namespace {

bool is_plain_run(std::string_view text) {
  if (characters::find_invalid_utf8(text) != std::string_view::npos) return false;
  int characters = 0;
  for (size_t at = 0; at < text.size(); ++characters) {
    const auto [code, length] = characters::read_utf8(text.data() + at);
    if (!is_plain(code)) return false;
    at += length;
  }
  return characters <= kPlainRun;
}

}  // namespace

TokenTrie::TokenTrie(std::vector<std::string> texts, const std::vector<bool>& differs_first)
    : texts_(std::move(texts)) {
  same_text_.assign(texts_.size(), -1);
  plain_.assign(mask_words(num_ids()), 0);
  differing_first_.assign(mask_words(num_ids()), 0);
  for (size_t id = 0; id < differs_first.size(); ++id)
    if (differs_first[id]) differing_first_[id / 64] |= uint64_t{1} << (id % 64);
  std::vector<int32_t> ids;
  for (size_t id = 0; id < texts_.size(); ++id) {
    std::string& text = texts_[id];
    if (text.size() > kMostTokenBytes) text.clear();
    if (!text.empty()) ids.push_back(static_cast<int32_t>(id));
    longest_ = std::max(longest_, text.size());
  }
  const auto text_of = [&](int32_t id) -> const std::string& {
    return texts_[static_cast<size_t>(id)];
  };
  std::ranges::sort(ids, [&](int32_t a, int32_t b) {
    const int order = text_of(a).compare(text_of(b));
    return order != 0 ? order < 0 : a < b;
  });
  // Of those with one text the first stands for all.
  std::vector<int32_t> first, other;
  for (const int32_t id : ids) {
    const bool is_first = first.empty() || text_of(first.back()) != text_of(id);
    if (!is_first) {
      int32_t last = first.back();
      while (same_text_[static_cast<size_t>(last)] >= 0)
        last = same_text_[static_cast<size_t>(last)];
      same_text_[static_cast<size_t>(last)] = id;
    }
    const bool plain = is_plain_run(text_of(id));
    if (plain) plain_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    if (is_first) first.push_back(id);
    if (is_first && !plain) other.push_back(id);
  }
  all_ = build(first);
  others_ = build(other);
}

/// Of ids in the order of their texts, which differ.
Trie TokenTrie::build(std::span<const int32_t> ids) const {
  Trie trie;
  std::vector<uint32_t> path;  // the nodes of the last text
  std::string_view last;
  const auto leave = [&](size_t depth) {
    while (path.size() > depth) {
      trie.skip[path.back()] = static_cast<uint32_t>(trie.size());
      path.pop_back();
    }
  };
  for (const int32_t id : ids) {
    const std::string_view text = this->text(id);
    const auto shared = std::ranges::mismatch(last, text).in1 - last.begin();
    leave(static_cast<size_t>(shared));
    for (size_t at = path.size(); at < text.size(); ++at) {
      path.push_back(static_cast<uint32_t>(trie.size()));
      trie.byte.push_back(static_cast<uint8_t>(text[at]));
      trie.depth.push_back(static_cast<uint16_t>(at + 1));
      trie.skip.push_back(0);
      trie.id.push_back(-1);
    }
    trie.id[path.back()] = id;
    last = text;
  }
  leave(0);
  return trie;
}

}  // namespace megalith::grammars

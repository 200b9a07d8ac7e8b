// SPDX-License-Identifier: Apache-2.0
// The tokens of a tokenizer by id: their spelling in the file and the bytes they stand for. Strings
// lie in two arenas and the indexes are tables of ids, so a vocabulary of 128,000 tokens takes a
// handful of allocations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::text {

/// A hash table of string ids with open addressing; the strings stay with the caller.
class StringIndex {
 public:
  /// The slot of the string, or the empty slot where it belongs. `string_of(id)` gives a string.
  template <typename StringOf>
  size_t find_slot(std::string_view text, const StringOf& string_of) const {
    size_t slot = std::hash<std::string_view>{}(text) & (slots_.size() - 1);
    while (slots_[slot] >= 0 && string_of(slots_[slot]) != text)
      slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }
  template <typename StringOf>
  std::optional<int32_t> find(std::string_view text, const StringOf& string_of) const {
    if (slots_.empty()) return std::nullopt;
    const int32_t id = slots_[find_slot(text, string_of)];
    return id >= 0 ? std::optional(id) : std::nullopt;
  }
  /// False, without a change, if the string is already there.
  template <typename StringOf>
  bool insert(int32_t id, std::string_view text, const StringOf& string_of) {
    if ((count_ + 1) * 2 > slots_.size()) grow(string_of);
    const size_t slot = find_slot(text, string_of);
    if (slots_[slot] >= 0) return false;
    slots_[slot] = id;
    ++count_;
    return true;
  }

 private:
  template <typename StringOf>
  void grow(const StringOf& string_of) {
    std::vector<int32_t> old(slots_.empty() ? 64 : slots_.size() * 2, -1);
    old.swap(slots_);
    for (const int32_t id : old)
      if (id >= 0) slots_[find_slot(string_of(id), string_of)] = id;
  }

  std::vector<int32_t> slots_;  // an id, or -1
  size_t count_ = 0;
};

/// How a file spells what its tokens stand for.
enum class TokenSpelling {
  byte_alphabet,  // tokenize/byte_level.h: each byte is a character
  text,           // as it is
};

class Vocabulary {
 public:
  explicit Vocabulary(TokenSpelling spelling = TokenSpelling::byte_alphabet)
      : spelling_(spelling) {}

  /// Adds a token; UserError if the id or the spelling is taken. `where` names the file.
  void add(int32_t id, std::string_view token, std::string_view where);
  /// Builds the index by bytes that find_bytes() needs; it leaves out the ids `without`.
  void index_bytes(const std::vector<int32_t>& without);

  /// One more than the largest id. Ids in between may be unused.
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  bool has(int64_t id) const {
    return id >= 0 && id < size() && tokens_[static_cast<size_t>(id)].used;
  }
  /// The spelling in the file; needs has(id).
  std::string_view token(int32_t id) const {
    const Entry& entry = tokens_[static_cast<size_t>(id)];
    return std::string_view(spellings_).substr(entry.spelling_begin, entry.spelling_length);
  }
  /// With the byte alphabet: what the token stands for, or its spelling if the alphabet lacks one
  /// of its characters. Else its spelling. Needs has(id).
  std::string_view bytes(int32_t id) const {
    const Entry& entry = tokens_[static_cast<size_t>(id)];
    return std::string_view(bytes_).substr(entry.bytes_begin, entry.bytes_length);
  }
  std::optional<int32_t> find(std::string_view token) const {
    return by_token_.find(token, [this](int32_t id) { return this->token(id); });
  }
  std::optional<int32_t> find_bytes(std::string_view bytes) const {
    return by_bytes_.find(bytes, [this](int32_t id) { return this->bytes(id); });
  }

 private:
  struct Entry {
    uint32_t spelling_begin = 0;
    uint32_t spelling_length = 0;
    uint32_t bytes_begin = 0;
    uint32_t bytes_length = 0;
    bool used = false;
    bool mapped = false;  // every character is in the byte alphabet
  };
  TokenSpelling spelling_;
  std::vector<Entry> tokens_;
  std::string spellings_;
  std::string bytes_;
  StringIndex by_token_;
  StringIndex by_bytes_;
};

}  // namespace megalith::text

// SPDX-License-Identifier: Apache-2.0
// Distinct words and how often each occurs: all that training keeps of a corpus. The words lie one
// after another in one string; a table of 32-bit indexes finds them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::text {

class WordCounts {
 public:
  static uint64_t hash_of(std::string_view word);

  /// Adds `count` to the word; `hash` is hash_of(word).
  void add(std::string_view word, uint64_t hash, int64_t count);
  void clear();

  size_t size() const { return words_.size(); }
  std::string_view word(size_t i) const {
    return std::string_view(bytes_).substr(words_[i].begin, words_[i].size);
  }
  uint64_t hash(size_t i) const { return words_[i].hash; }
  int64_t count(size_t i) const { return words_[i].count; }

 private:
  struct Word {
    uint64_t begin;
    uint64_t hash;
    int64_t count;
    uint32_t size;
  };
  void grow();

  std::vector<Word> words_;
  std::string bytes_;
  std::vector<uint32_t> slots_;  // index into words_ plus one; 0: empty
};

}  // namespace megalith::text

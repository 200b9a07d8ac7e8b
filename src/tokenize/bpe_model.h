// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of one word (Sennrich et al. 2016). It begins with the ids of the word's
// bytes, or with whatever else the vocabulary has for symbols (byte_fallback.h: characters). While
// some neighbours have a merge rule, the rule of lowest rank is applied, at the leftmost place
// first. Short words search an array for the lowest rank; long words are encoded in windows that
// stay in the cache.
//
// Why windows are exact: a row of tokens is the encoding of its bytes if and only if every two
// neighbours are the encoding of theirs. (Consider the first merge of the whole row that crosses a
// token's edge. Until then every two neighbours went through the same steps as alone, because the
// lowest rank of all, if it lies in them, is also the lowest in them. So the crossing merge would
// happen to those two alone.) Within a window neighbours are right by the same argument. Where two
// windows meet, the two tokens are encoded on their own, and if the result differs, the window is
// begun further to the left.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenize/tournament.h"

namespace megalith::tokenize {

/// What a pair of neighbours becomes, and its priority.
struct Merge {
  uint32_t rank;
  int32_t id;
};
inline constexpr uint32_t kNoRank = 0xFFFFFFFF;

/// Pair of ids -> merge: a hash table with open addressing, at most half full. In front of it is a
/// filter of 16 bits per merge that rejects nine of ten pairs without a rule, and stays in the
/// cache where the table does not.
class MergeTable {
 public:
  MergeTable() : MergeTable(0) {}
  explicit MergeTable(size_t num_merges);
  /// Replaces the value of a pair that is already there.
  void set(int32_t left, int32_t right, Merge merge);
  /// rank == kNoRank if the pair has no rule.
  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    const uint64_t hash = hash_of(key);
    if ((filter_[filter_word(hash)] >> (hash & 63) & 1) == 0) return {kNoRank, -1};
    for (size_t slot = hash >> shift_;; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return {kNoRank, -1};
    }
  }

 private:
  struct Slot {
    uint64_t key;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  static uint64_t hash_of(uint64_t key) {
    const uint64_t mixed = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15u;
    return mixed ^ (mixed >> 32);
  }
  size_t filter_word(uint64_t hash) const { return (hash >> 6) & (filter_.size() - 1); }
  std::vector<Slot> slots_;
  std::vector<uint64_t> filter_;
  size_t mask_ = 0;
  int shift_ = 63;
};

/// Working memory of one thread, reused from word to word.
struct MergeScratch {
  struct Place {  // of one symbol in a window
    int32_t id;
    int32_t merged_id;  // with the next one
    uint32_t previous;
    uint32_t next;
  };
  struct Token {
    int32_t id;
    size_t begin;  // first symbol
  };
  std::vector<int32_t> symbols;  // the word before any merge
  std::vector<Merge> merges;     // of each symbol with the next, in short words
  std::vector<Place> places;
  Tournament ranks;
  std::vector<Token> window;
  std::vector<Token> pair;
  std::vector<Token> done;
};

class BpeModel {
 public:
  /// The id of each byte; -1: the byte is left out of the result (the file has no token for it).
  std::array<int32_t, 256> byte_ids{};
  /// Runs of bytes with this id become one token (the unknown token with fuse_unk); -1: none.
  int32_t fused_id = -1;
  MergeTable merges;

  /// Appends the ids of one word. O(n log n) time in its n bytes.
  void encode_word(std::string_view word, MergeScratch& scratch, std::vector<int32_t>& ids) const;
  /// Appends what `scratch.symbols` become; their content is then unspecified. O(n log n) time.
  void merge_symbols(MergeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  void merge_short(MergeScratch& scratch, std::vector<int32_t>& ids) const;
  void merge_long(MergeScratch& scratch, std::vector<int32_t>& ids) const;
  void merge_window(size_t begin, size_t end, MergeScratch& scratch,
                    std::vector<MergeScratch::Token>& tokens) const;
  bool hold_alone(const MergeScratch::Token& left, const MergeScratch::Token& right, size_t end,
                  MergeScratch& scratch) const;
};

}  // namespace megalith::tokenize

// SPDX-License-Identifier: Apache-2.0
// The core of BPE training: which pair of neighbours is most frequent, again and again. Words are
// kept once, weighted by their counts. A merge visits only the words listed for its pair and
// corrects the counts of the pairs around each place; a heap with stale entries gives the next
// pair. Large visits are spread over the threads in two steps, words first, then pairs by hash.
// Counts are integers, so the result does not depend on which thread did what.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "text_training/word_counts.h"

namespace megalith::text {

inline constexpr int64_t kMaxVocabulary = int64_t{1} << 24;

class MergeSearch {
 public:
  struct Pair {
    int32_t left;
    int32_t right;
    auto operator<=>(const Pair&) const = default;
  };

  /// Appends what the merges of a word begin from.
  using SymbolsOf = std::function<void(std::string_view word, std::vector<int32_t>& symbols)>;
  MergeSearch(std::vector<WordCounts> words, const SymbolsOf& symbols_of, ThreadPool& pool);

  /// The most frequent pair (the lowest one of several), if it occurs `min_frequency` times.
  std::optional<Pair> most_frequent(int64_t min_frequency);
  /// Replaces the pair by `id` everywhere, left to right in each word.
  void merge(Pair pair, int32_t id, ThreadPool& pool);

 private:
  static constexpr size_t kShards = 16;

  struct Word {
    uint64_t begin;  // into symbols_
    uint32_t length;
    int64_t count;
  };
  struct PairInfo {
    int64_t count = 0;
    int64_t queued_at = -1;       // the merge at which it was last put into the heap
    std::vector<uint32_t> words;  // that hold it, or held it; a word may stand there twice
  };
  struct PairHash {
    size_t operator()(Pair pair) const {
      const uint64_t key =
          uint64_t{static_cast<uint32_t>(pair.left)} << 32 | static_cast<uint32_t>(pair.right);
      return static_cast<size_t>((key ^ (key >> 29)) * 0x9E3779B97F4A7C15u);
    }
  };
  using PairTable = std::unordered_map<Pair, PairInfo, PairHash>;
  struct Change {
    Pair pair;
    uint32_t word;
    int64_t count;
  };
  using Changes = std::array<std::vector<Change>, kShards>;
  struct Candidate {
    int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {  // std::priority_queue gives the largest
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  static size_t shard_of(Pair pair) { return PairHash{}(pair) >> 60; }
  void count_pairs(size_t shard);
  void merge_in_word(uint32_t word, Pair pair, int32_t id, Changes& changes);
  void apply_changes(size_t shard, size_t num_lists);
  void queue_raised();

  std::vector<int32_t> symbols_;
  std::vector<Word> words_;
  std::array<PairTable, kShards> pairs_;
  std::array<std::vector<Candidate>, kShards> raised_;  // pairs whose count rose in this merge
  std::vector<Changes> changes_;                        // one per thread
  std::priority_queue<Candidate> queue_;
  int64_t num_merges_ = 0;
};

}  // namespace megalith::text

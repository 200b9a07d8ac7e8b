// SPDX-License-Identifier: Apache-2.0
#include "text_training/merge_search.h"

#include <algorithm>
#include <utility>

#include "base/integer.h"

namespace megalith::text {
namespace {

constexpr size_t kWordsWorthThreads = 4096;  // fewer are done before other threads have woken up

}  // namespace

MergeSearch::MergeSearch(std::vector<WordCounts> words, const SymbolsOf& symbols_of,
                         ThreadPool& pool)
    : changes_(static_cast<size_t>(pool.num_threads())) {
  for (WordCounts& counts : words) {
    for (size_t i = 0; i < counts.size(); ++i) {
      const size_t begin = symbols_.size();
      symbols_of(counts.word(i), symbols_);
      const size_t length = symbols_.size() - begin;
      if (length < 2) {
        symbols_.resize(begin);
      } else {
        words_.push_back({begin, narrow<uint32_t>(length), counts.count(i)});
      }
    }
    counts = WordCounts();  // its memory is free before the next is read
  }
  narrow<uint32_t>(words_.size());
  pool.for_range(kShards, 1, [&](Range shards, int /*thread*/) {
    for (int64_t shard = shards.begin; shard < shards.end; ++shard)
      count_pairs(static_cast<size_t>(shard));
  });
  for (const PairTable& table : pairs_)
    for (const auto& [pair, info] : table) queue_.push({info.count, pair});
}

// Every shard reads all words: reading is cheap beside the table.
void MergeSearch::count_pairs(size_t shard) {
  for (uint32_t w = 0; w < words_.size(); ++w) {
    const int32_t* symbols = symbols_.data() + words_[w].begin;
    for (uint32_t i = 0; i + 1 < words_[w].length; ++i) {
      const Pair pair{symbols[i], symbols[i + 1]};
      if (shard_of(pair) != shard) continue;
      PairInfo& info = pairs_[shard][pair];
      info.count += words_[w].count;
      if (info.words.empty() || info.words.back() != w) info.words.push_back(w);
    }
  }
}

// Counts only fall behind the heap's back (rises are queued anew), so an entry whose count is not
// the present one goes back with the present one.
std::optional<MergeSearch::Pair> MergeSearch::most_frequent(int64_t min_frequency) {
  while (!queue_.empty()) {
    const Candidate top = queue_.top();
    const int64_t count = pairs_[shard_of(top.pair)].at(top.pair).count;
    if (count == top.count) {
      if (count < min_frequency) return std::nullopt;
      return top.pair;
    }
    queue_.pop();
    if (count > 0 && count < top.count) queue_.push({count, top.pair});
  }
  return std::nullopt;
}

void MergeSearch::merge(Pair pair, int32_t id, ThreadPool& pool) {
  PairInfo& info = pairs_[shard_of(pair)].at(pair);
  std::vector<uint32_t> words = std::exchange(info.words, {});
  ++num_merges_;
  if (words.size() < kWordsWorthThreads || pool.num_threads() == 1) {
    for (const uint32_t word : words) merge_in_word(word, pair, id, changes_[0]);
    for (size_t shard = 0; shard < kShards; ++shard) apply_changes(shard, 1);
  } else {
    std::sort(words.begin(), words.end());  // no word may belong to two threads
    words.erase(std::unique(words.begin(), words.end()), words.end());
    pool.for_range(static_cast<int64_t>(words.size()), 64, [&](Range part, int thread) {
      for (int64_t i = part.begin; i < part.end; ++i)
        merge_in_word(words[static_cast<size_t>(i)], pair, id,
                      changes_[static_cast<size_t>(thread)]);
    });
    pool.for_range(kShards, 1, [&](Range shards, int /*thread*/) {
      for (int64_t shard = shards.begin; shard < shards.end; ++shard)
        apply_changes(static_cast<size_t>(shard), changes_.size());
    });
  }
  info.count = 0;
  queue_raised();
}

// The new symbol's neighbours change partner: (previous, left) becomes (previous, id), and
// (right, next) becomes (id, next). `previous` is already the new symbol where two places touch.
void MergeSearch::merge_in_word(uint32_t word, Pair pair, int32_t id, Changes& changes) {
  Word& place = words_[word];
  int32_t* symbols = symbols_.data() + place.begin;
  const auto change = [&](int32_t left, int32_t right, int64_t count) {
    const Pair changed{left, right};
    changes[shard_of(changed)].push_back({changed, word, count});
  };
  uint32_t kept = 0;
  for (uint32_t i = 0; i < place.length; ++i) {
    if (i + 1 == place.length || symbols[i] != pair.left || symbols[i + 1] != pair.right) {
      symbols[kept++] = symbols[i];
      continue;
    }
    if (kept > 0) {
      change(symbols[kept - 1], pair.left, -place.count);
      change(symbols[kept - 1], id, place.count);
    }
    if (i + 2 < place.length) {
      change(pair.right, symbols[i + 2], -place.count);
      change(id, symbols[i + 2], place.count);
    }
    symbols[kept++] = id;
    ++i;
  }
  place.length = kept;
}

void MergeSearch::apply_changes(size_t shard, size_t num_lists) {
  for (size_t list = 0; list < num_lists; ++list) {
    for (const Change& change : changes_[list][shard]) {
      PairInfo& info = pairs_[shard][change.pair];
      info.count += change.count;
      if (change.count < 0) continue;
      if (info.words.empty() || info.words.back() != change.word) info.words.push_back(change.word);
      if (info.queued_at == num_merges_) continue;
      info.queued_at = num_merges_;
      raised_[shard].push_back({0, change.pair});
    }
    changes_[list][shard].clear();
  }
}

void MergeSearch::queue_raised() {
  for (size_t shard = 0; shard < kShards; ++shard) {
    for (const Candidate& raised : raised_[shard]) {
      const int64_t count = pairs_[shard].at(raised.pair).count;
      if (count > 0) queue_.push({count, raised.pair});
    }
    raised_[shard].clear();
  }
}

}  // namespace megalith::text

// SPDX-License-Identifier: Apache-2.0
#include "tokenize/bpe_model.h"

#include <algorithm>
#include <bit>

#include "base/integer.h"

namespace megalith::tokenize {
namespace {

// Up to here the search for the lowest rank (quadratic in all) beats the tournament.
constexpr size_t kShortWord = 32;
constexpr size_t kWindow = 256;  // symbols; 256 places, keys and neighbours are 7 KiB
constexpr uint32_t kNone = 0xFFFFFFFF;

}  // namespace

MergeTable::MergeTable(size_t num_merges) {
  const size_t size = std::bit_ceil(std::max<size_t>(num_merges * 2, 2));
  slots_.assign(size, Slot{kEmpty, {kNoRank, -1}});
  filter_.assign(std::max<size_t>(size / 8, 1), 0);
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  const uint64_t hash = hash_of(key);
  filter_[filter_word(hash)] |= uint64_t{1} << (hash & 63);
  size_t slot = hash >> shift_;
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask_;
  slots_[slot] = {key, merge};
}

void BpeModel::encode_word(std::string_view word, MergeScratch& scratch,
                           std::vector<int32_t>& ids) const {
  auto& symbols = scratch.symbols;
  symbols.resize(word.size());
  size_t count = 0;
  for (const char byte : word) {
    const int32_t id = byte_ids[static_cast<uint8_t>(byte)];
    if (id < 0) continue;
    if (id == fused_id && count > 0 && symbols[count - 1] == id) continue;
    symbols[count++] = id;
  }
  symbols.resize(count);
  merge_symbols(scratch, ids);
}

void BpeModel::merge_symbols(MergeScratch& scratch, std::vector<int32_t>& ids) const {
  if (scratch.symbols.size() <= kShortWord) {
    merge_short(scratch, ids);
  } else {
    merge_long(scratch, ids);
  }
}

void BpeModel::merge_short(MergeScratch& scratch, std::vector<int32_t>& ids) const {
  size_t count = scratch.symbols.size();
  if (count == 0) return;
  scratch.merges.resize(kShortWord);
  int32_t* symbols = scratch.symbols.data();
  Merge* pairs = scratch.merges.data();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(symbols[i], symbols[i + 1]);
  pairs[count - 1] = {kNoRank, -1};
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == kNoRank) break;
    symbols[best] = pairs[best].id;
    --count;
    std::move(symbols + best + 2, symbols + count + 1, symbols + best + 1);
    std::move(pairs + best + 1, pairs + count + 1, pairs + best);
    if (best + 1 < count) pairs[best] = merges.find(symbols[best], symbols[best + 1]);
    if (best > 0) pairs[best - 1] = merges.find(symbols[best - 1], symbols[best]);
  }
  ids.insert(ids.end(), symbols, symbols + count);
}

// Keys are (rank, place); a place that was merged into its left neighbour, or that has no rule,
// never comes up.
void BpeModel::merge_window(size_t begin, size_t end, MergeScratch& scratch,
                            std::vector<MergeScratch::Token>& tokens) const {
  const uint32_t count = narrow<uint32_t>(end - begin);
  const int32_t* symbols = scratch.symbols.data() + begin;
  scratch.places.resize(count);
  MergeScratch::Place* places = scratch.places.data();
  Tournament& ranks = scratch.ranks;
  ranks.reset(count);
  const auto set_merge = [&](uint32_t at, Merge merge) {
    places[at].merged_id = merge.id;
    ranks.leaf(at) = merge.rank == kNoRank ? Tournament::kNever : uint64_t{merge.rank} << 32 | at;
  };
  for (uint32_t i = 0; i < count; ++i) {
    places[i] = {symbols[i], -1, i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
    if (i + 1 < count) set_merge(i, merges.find(symbols[i], symbols[i + 1]));
  }
  ranks.build();
  for (uint64_t top = ranks.top(); top != Tournament::kNever; top = ranks.top()) {
    const uint32_t at = static_cast<uint32_t>(top);
    const uint32_t gone = places[at].next;
    const uint32_t next = places[gone].next;
    const uint32_t previous = places[at].previous;
    const int32_t id = places[at].id = places[at].merged_id;
    places[at].next = next;
    ranks.leaf(gone) = Tournament::kNever;
    if (gone / 8 != at / 8) ranks.refresh(gone);
    set_merge(at, next == kNone ? Merge{kNoRank, -1} : merges.find(id, places[next].id));
    if (next != kNone) places[next].previous = at;
    if (previous != kNone) {
      set_merge(previous, merges.find(places[previous].id, id));
      if (previous / 8 != at / 8) ranks.refresh(previous);
    }
    ranks.refresh(at);
  }
  tokens.clear();
  for (uint32_t at = 0; at != kNone; at = places[at].next)
    tokens.push_back({places[at].id, begin + at});
}

bool BpeModel::hold_alone(const MergeScratch::Token& left, const MergeScratch::Token& right,
                          size_t end, MergeScratch& scratch) const {
  merge_window(left.begin, end, scratch, scratch.pair);
  return scratch.pair.size() == 2 && scratch.pair[0].id == left.id &&
         scratch.pair[1].id == right.id && scratch.pair[1].begin == right.begin;
}

// Every window but the last gives up the tokens in its last eighth, which lack what follows. Where
// a joint fails, the window begins 1, 2, 4... tokens further left; where joints fail often, windows
// double, so that text made to fail costs a constant factor.
void BpeModel::merge_long(MergeScratch& scratch, std::vector<int32_t>& ids) const {
  const size_t count = scratch.symbols.size();
  std::vector<MergeScratch::Token>& window = scratch.window;
  std::vector<MergeScratch::Token>& done = scratch.done;
  done.clear();
  size_t size = kWindow, begin = 0, step_back = 1, num_windows = 0, num_failures = 0;
  for (;;) {
    const size_t end = std::min(begin + size, count);
    merge_window(begin, end, scratch, window);
    ++num_windows;
    size_t kept = window.size();
    if (end < count) {
      --kept;  // the last may be cut off, however far left it begins
      while (kept > 0 && window[kept - 1].begin >= end - size / 8) --kept;
      if (kept < 2) {  // tokens as long as the window
        size *= 2;
        continue;
      }
    }
    const size_t first_end = window.size() > 1 ? window[1].begin : end;
    if (!done.empty() && !hold_alone(done.back(), window[0], first_end, scratch)) {
      const size_t back = std::min(step_back, done.size());
      begin = done[done.size() - back].begin;
      done.resize(done.size() - back);
      step_back *= 2;
      if (++num_failures * 4 > num_windows + 4) size *= 2;
      continue;
    }
    step_back = 1;
    done.insert(done.end(), window.begin(), window.begin() + static_cast<ptrdiff_t>(kept));
    if (end == count) break;
    begin = window[kept].begin;
  }
  for (const MergeScratch::Token& token : done) ids.push_back(token.id);
}

}  // namespace megalith::tokenize

// SPDX-License-Identifier: Apache-2.0
#include "tune/packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"

namespace megalith::tune {

std::vector<std::vector<int64_t>> packed_samples(std::span<const int64_t> lengths, int64_t length) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length_of = [&](int64_t example) { return lengths[static_cast<size_t>(example)]; };
  std::ranges::stable_sort(order, std::ranges::greater{}, length_of);
  std::vector<std::vector<int64_t>> samples;
  std::set<std::pair<int64_t, int64_t>> room;  // tokens left, sample
  for (const int64_t example : order) {
    const int64_t tokens = length_of(example);
    MEGA_CHECK(tokens >= 1 && tokens <= length, "an example of {} tokens in samples of {}", tokens,
               length);
    int64_t left = length, sample = std::ssize(samples);
    if (const auto best = room.lower_bound({tokens, 0}); best != room.end()) {
      left = best->first;
      sample = best->second;
      room.erase(best);
    } else {
      samples.emplace_back();
    }
    samples[static_cast<size_t>(sample)].push_back(example);
    if (left > tokens) room.emplace(left - tokens, sample);
  }
  for (std::vector<int64_t>& sample : samples) std::ranges::sort(sample);
  return samples;
}

namespace {

/// Samples with two sides while they are filled.
class TwoSides {
 public:
  explicit TwoSides(const SideLengths& length) : length_(length) {}

  /// The larger side, as a part of the sample's, in units of 1 / (decoder x encoder) of it.
  int64_t most(const SideLengths& tokens) const {
    return std::max(tokens.decoder * length_.encoder, tokens.encoder * length_.decoder);
  }

  void put(int64_t example, const SideLengths& tokens) {
    const auto place = find(tokens);
    size_t sample = samples_.size();
    if (place != by_room_.end()) {
      sample = place->second;
      by_room_.erase(place);
    } else {
      samples_.emplace_back();
      rooms_.push_back(length_);
    }
    samples_[sample].push_back(example);
    SideLengths& room = rooms_[sample];
    room = {room.decoder - tokens.decoder, room.encoder - tokens.encoder};
    if (room.decoder > 0 && room.encoder > 0 && std::ssize(samples_[sample]) + 1 < length_.decoder)
      by_room_.emplace(least(room), sample);
  }

  std::vector<std::vector<int64_t>> samples() && { return std::move(samples_); }

 private:
  using ByRoom = std::set<std::pair<int64_t, size_t>>;
  int64_t least(const SideLengths& tokens) const {
    return std::min(tokens.decoder * length_.encoder, tokens.encoder * length_.decoder);
  }
  ByRoom::const_iterator find(const SideLengths& tokens) const {
    constexpr int kLooks = 64;  // where many samples have room on one side alone
    auto place = by_room_.lower_bound({least(tokens), 0});
    for (int looks = 0; looks < kLooks && place != by_room_.end(); ++looks, ++place) {
      const SideLengths& room = rooms_[place->second];
      if (room.decoder >= tokens.decoder && room.encoder >= tokens.encoder) return place;
    }
    return by_room_.lower_bound({most(tokens), 0});
  }

  SideLengths length_;
  std::vector<std::vector<int64_t>> samples_;
  std::vector<SideLengths> rooms_;
  ByRoom by_room_;  // (room of its fuller side, as least() counts, sample)
};

}  // namespace

std::vector<std::vector<int64_t>> packed_samples(std::span<const SideLengths> lengths,
                                                 const SideLengths& length) {
  MEGA_CHECK(length.decoder >= 2 && length.encoder >= 2, "samples of {} and {} tokens",
             length.decoder, length.encoder);
  TwoSides sides(length);
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto tokens_of = [&](int64_t example) { return lengths[static_cast<size_t>(example)]; };
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](int64_t example) { return sides.most(tokens_of(example)); });
  for (const int64_t example : order) {
    const SideLengths tokens = tokens_of(example);
    MEGA_CHECK(tokens.decoder >= 1 && tokens.decoder <= length.decoder && tokens.encoder >= 1 &&
                   tokens.encoder <= length.encoder,
               "an example of {} and {} tokens in samples of {} and {}", tokens.decoder,
               tokens.encoder, length.decoder, length.encoder);
    sides.put(example, tokens);
  }
  auto samples = std::move(sides).samples();
  for (std::vector<int64_t>& sample : samples) std::ranges::sort(sample);
  return samples;
}

}  // namespace megalith::tune

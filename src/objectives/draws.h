// SPDX-License-Identifier: Apache-2.0
// Draws of an objective: by which key, and how a word of 32 bits decides.
#pragma once

#include "data/sampler.h"
#include "math/random.h"

namespace megalith::objectives {

/// What is drawn for a sample belongs to its place in the data, whenever and wherever it is read:
/// `key` with the sample's corpus, epoch and place in the corpus.
inline uint64_t sample_key(uint64_t key, const data::SampleAddress& address) {
  for (const int64_t part : {address.corpus, address.epoch, address.index})
    key = random_key(key, static_cast<uint64_t>(part));
  return key;
}

/// Words below it are a part `share` of all, 0 to 1: exact, since a power of two moves no bit.
inline uint64_t threshold(double share) { return static_cast<uint64_t>(share * 0x1p32); }

}  // namespace megalith::objectives

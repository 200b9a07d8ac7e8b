// SPDX-License-Identifier: Apache-2.0
// What the passes of attention_backward_bf16.cpp get in addition to an item. Internal.
#pragma once

#include <bit>

#include "kernels/attention/attention_bf16.h"
#include "kernels/attention/attention_work.h"

namespace megalith::kernels {

/// One thread's scratch, in floats (or words).
struct Bf16BackwardScratch {
  int64_t size, words, width;
  int64_t key_blocks;
  int64_t partials;  // of dk and of dv that wait to be added
  int64_t dq_chunks;
  int64_t diagonals;  // distances of a block of keys whose gradients are summed
  Bf16BackwardScratch(const AttentionBackward& a, BackwardPass pass)
      : size(a.q_TND.head_size),
        words(words_of(size)),
        width(padded_head_size(size)),
        key_blocks(pass == BackwardPass::all ? kBackwardKeyBlocks : 1),
        partials(std::bit_width(static_cast<uint64_t>(a.kv_partials))),
        dq_chunks(pass == BackwardPass::keys ? 0
                  : pass == BackwardPass::queries
                      ? kBackwardBlock / kChunk
                      : a.q_TND.num_heads / a.k_TKD.num_heads * chunks_of_longest(a)),
        diagonals(a.dtable_BN.absent() || pass == BackwardPass::queries
                      ? 0
                      : chunks_of_longest(a) * kChunk + kBackwardBlock) {}
  static int64_t chunks_of_longest(const AttentionBackward& a) {
    return round_up(longest(a.sequences.cu_seqlens), kChunk) / kChunk;
  }
  int64_t rows() const { return kBackwardBlock * words; }
  int64_t pairs() const { return kBackwardBlock / 2 * width; }
  int64_t square() const { return kBackwardBlock / 2 * kBackwardBlock; }
  int64_t sums() const { return kBackwardBlock * width; }
  int64_t dq() const { return width * kChunk; }
  int64_t floats() const {
    return key_blocks * (2 * rows() + pairs() + 2 * partials * sums()) + 2 * rows() + 2 * pairs() +
           3 * square() + 2 * kTileRows * kChunk + kBackwardBlock + dq_chunks * dq() +
           key_blocks * diagonals;
  }
};

struct Bf16BackwardCall {
  const AttentionBackward& a;
  const BackwardCommon& common;
  BackwardPass pass;
  Bf16BackwardScratch layout;
};

}  // namespace megalith::kernels

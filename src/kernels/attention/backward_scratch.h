// SPDX-License-Identifier: Apache-2.0
// What the passes of attention_backward_cpu.cpp get in addition to an item. Internal.
#pragma once

#include <bit>

#include "kernels/attention/attention_work.h"

namespace megalith::kernels {

/// One thread's scratch, in floats.
struct BackwardScratch {
  int64_t width;
  int64_t dq_rows;
  int64_t partials;   // of dk and of dv that wait to be added
  int64_t squares;    // blocks of queries by keys
  int64_t diagonals;  // distances of a block of keys whose gradients are summed
  BackwardScratch(const AttentionBackward& a, BackwardPass pass)
      : width(padded_head_size(a.q_TND.head_size)),
        dq_rows(pass == BackwardPass::keys ? 0
                : pass == BackwardPass::queries
                    ? kKeyBlock
                    : a.q_TND.num_heads / a.k_TKD.num_heads *
                          round_up(longest(a.sequences.cu_seqlens), kKeyBlock)),
        partials(std::bit_width(static_cast<uint64_t>(a.kv_partials))),
        squares(a.softcap > 0 ? 4 : 3),
        diagonals(a.dtable_BN.absent() || pass == BackwardPass::queries
                      ? 0
                      : longest(a.sequences.cu_seqlens) + kKeyBlock) {}
  int64_t block() const { return kKeyBlock * width; }
  int64_t floats() const {
    return (6 + 2 * partials) * block() + squares * kKeyBlock * kKeyBlock + dq_rows * width +
           diagonals;
  }
};

/// Everything a pass needs in addition to the item.
struct BackwardCall {
  const AttentionBackward& a;
  const BackwardCommon& common;
  BackwardPass pass;
  BackwardScratch layout;
};

}  // namespace megalith::kernels

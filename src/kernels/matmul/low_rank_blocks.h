// SPDX-License-Identifier: Apache-2.0
// The second factor of an adapter of a product that is several of the adapter's modules, without
// its zeros: kernels/matmul/low_rank.h says how it is packed.
#pragma once

#include <span>
#include <vector>

#include "kernels/matmul/low_rank.h"
#include "tensor/shard.h"

namespace megalith::kernels {

/// `ranks`: by output, those of its module, or none. Outputs of two modules that alternate are one
/// block, all others blocks of neighbours.
std::vector<LowRankBlock> blocks_of(std::span<const Range> ranks);
/// The same of the outputs that a shard of them names.
std::vector<LowRankBlock> blocks_of(std::span<const Range> ranks, const Shard& part);
/// Most rows that a column has.
int64_t packed_rank(std::span<const LowRankBlock> blocks);

/// b [R, O] as [packed, O].
std::vector<float> packed(std::span<const float> b_RO, int64_t outputs,
                          std::span<const LowRankBlock> blocks, int64_t packed);

}  // namespace megalith::kernels

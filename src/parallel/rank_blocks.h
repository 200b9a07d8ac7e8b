// SPDX-License-Identifier: Apache-2.0
// What neighbouring ranks of a group do among themselves: those that share a key/value head. Blocks
// are of `size` ranks in order, which divides the group's; a block of one is alone. Everything
// travels as messages between pairs; done on return. Collective over the block.
#pragma once

#include <string_view>

#include "comm/communicator.h"
#include "kernels/exec.h"

namespace megalith::parallel {

/// Row j of parts_PN, contiguous, comes from rank j of the block; this rank's is there.
void gather_in_block(comm::Communicator& group, int size, View parts_PN, std::string_view label);

/// x_TH: this rank's contiguous f32 (or f64) partial; overwritten by the canonical tree over the
/// block's (canonical.h). Scratch: as much as x.
void tree_sum_in_block(kernels::Exec& exec, comm::Communicator& group, int size, View x_TH,
                       std::string_view label);

}  // namespace megalith::parallel

// SPDX-License-Identifier: Apache-2.0
// Element-wise all-reduce of one piece, in place over all ranks' buffers.
#pragma once

#include <span>

#include "comm/operation.h"

namespace megalith::comm {

/// Elements [begin, begin + count) of every rank's target become their maximum or sum, combined in
/// rank order.
void reduce_piece(std::span<const Operation> posts, int64_t begin, int64_t count);

}  // namespace megalith::comm

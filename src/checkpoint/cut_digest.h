// SPDX-License-Identifier: Apache-2.0
// The SHA-256 of a logical tensor whose pieces lie on several ranks: one rank hashes the row-major
// bytes while the others send theirs in order, a bounded block at a time. So the digest does not
// depend on how the tensor is cut (along rows or columns), and no rank holds all of it.
#pragma once

#include <string>

#include "checkpoint/rank_parts.h"
#include "checkpoint/safetensors_writer.h"

namespace megalith::checkpoint {

/// What a rank sends at a time, and what the hashing rank holds per peer.
inline constexpr int64_t kDigestBlockBytes = int64_t{1} << 20;

/// Collective over the ranks that hold pieces of `tensor`, which all go through their tensors in
/// the same order; `mine` is this rank's piece. Returns the digest on rank `hasher` (one of the
/// holders), an empty text on the others.
std::string digest_of_cut(comm::ControlMessages& ranks, const PlacedTensor& tensor, int hasher,
                          const TensorContent& mine);

}  // namespace megalith::checkpoint

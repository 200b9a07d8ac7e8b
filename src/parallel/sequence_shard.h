// SPDX-License-Identifier: Apache-2.0
// Sequence shards: how the rows of an activation are spread over the tensor ranks with sequence
// parallelism (Korthikanti et al. 2022, section 4.2.2). A micro-batch holds several samples, and a
// rank has a run of positions of *each* of them. So its sums over tokens are whole canonical token
// shards (kernels/reduction/token_shards.h) however many samples a micro-batch has. With one sample
// the part is contiguous and nothing is packed.
//
// Start and finish are separate so that a matrix product can run between them.
#pragma once

#include "parallel/canonical.h"

namespace megalith::parallel {

/// Rows [samples x run], run a multiple of the number of ranks. Rank r has rows
/// [r, r + 1) run / ranks of each sample, sample after sample.
struct SequenceShard {
  int64_t samples = 1;
};

/// A gather under way. If it is destroyed unfinished (an exception), it withdraws its buffers.
struct PendingGather {
  View whole;
  SequenceShard shard;
  device::Tensor packed;  // [ranks, own rows]; absent with one sample
  comm::Ticket ticket;
};

/// whole_TH = all ranks' shards, any dtype, overwritten at finish. Scratch until then: as large as
/// `whole` with several samples, else none. Collective over `comm`.
PendingGather start_gather_rows(kernels::Exec& exec, comm::Communicator& comm, ConstView part,
                                View whole_TH, const SequenceShard& shard, std::string_view label);
void finish(kernels::Exec& exec, comm::Communicator& comm, PendingGather pending);

/// A sum of partials whose parts go to their ranks, under way.
struct PendingScatter {
  device::Tensor packed;  // [ranks, own rows]; absent with one sample
  PendingReduceScatter sum;
};

/// part = this rank's rows of the canonical tree over the ranks' partials (canonical.h); f32,
/// overwritten at finish. partial_TH must not be touched in between. Scratch until then: as large
/// as `partial`, twice that with several samples. Collective over `comm`.
PendingScatter start_scatter_rows(kernels::Exec& exec, comm::Communicator& comm,
                                  ConstView partial_TH, View part, const SequenceShard& shard,
                                  std::string_view label);
void finish(kernels::Exec& exec, comm::Communicator& comm, PendingScatter pending);

}  // namespace megalith::parallel

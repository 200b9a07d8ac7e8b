// SPDX-License-Identifier: Apache-2.0
// Token parts: how the rows of an activation are spread over the tensor ranks with sequence
// parallelism (Korthikanti et al. 2022, section 4.2.2). A micro-batch holds several samples, and a
// rank's part is a run of positions of *each* of them: so a rank's sums over tokens are whole
// canonical token shards (kernels/reduction/token_shards.h) however many samples a micro-batch has.
// With one sample the part is contiguous and nothing is packed.
//
// Start and finish are apart so that a product can run between them.
#pragma once

#include "parallel/canonical.h"

namespace megalith::parallel {

/// Rows [samples x run], run divisible by the ranks. Rank r has rows [r, r + 1) run / ranks of each
/// sample, sample after sample.
struct RowParts {
  int64_t samples = 1;
};

/// A gather under way. Destroyed unfinished (an exception), it withdraws its buffers.
struct PendingGather {
  View whole;
  RowParts parts;
  device::Tensor packed;  // [ranks, own rows]; absent with one sample
  comm::Ticket ticket;
};

/// whole_TH = the ranks' parts, any dtype, overwritten at finish. Scratch between the two: as large
/// as `whole` with several samples, else nothing. Collective over `comm`.
PendingGather start_gather_rows(kernels::Exec& exec, comm::Communicator& comm, ConstView part,
                                View whole_TH, const RowParts& parts, std::string_view label);
void finish(kernels::Exec& exec, comm::Communicator& comm, PendingGather pending);

/// A sum of partials whose parts go to their ranks, under way.
struct PendingScatter {
  device::Tensor packed;  // [ranks, own rows]; absent with one sample
  PendingReduceScatter sum;
};

/// part = this rank's rows of the canonical tree over the ranks' partials (canonical.h); f32,
/// overwritten at finish. partial_TH must not be touched in between. Scratch: as large as
/// `partial`, twice that with several samples. Collective over `comm`.
PendingScatter start_scatter_rows(kernels::Exec& exec, comm::Communicator& comm,
                                  ConstView partial_TH, View part, const RowParts& parts,
                                  std::string_view label);
void finish(kernels::Exec& exec, comm::Communicator& comm, PendingScatter pending);

}  // namespace megalith::parallel

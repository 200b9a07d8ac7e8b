// SPDX-License-Identifier: Apache-2.0
#include "parallel/sequence_shard.h"

#include "base/check.h"

namespace megalith::parallel {
namespace {

/// Nothing has to be put together: parts are contiguous in the whole.
bool is_plain(const comm::Communicator& comm, const SequenceShard& shard) {
  return comm.size() == 1 || shard.samples == 1;
}

/// Elements of one rank's part of one sample.
int64_t part_elements(const comm::Communicator& comm, ConstView whole, const SequenceShard& shard) {
  MEGA_CHECK(whole.size(0) % (shard.samples * comm.size()) == 0,
             "{} rows of {} samples over {} ranks", whole.size(0), shard.samples, comm.size());
  return whole.num_elements() / shard.samples / comm.size();
}

/// Rank r's rows of every sample: [samples, elements].
template <typename AnyView>
AnyView rows_of_rank(AnyView whole, int64_t samples, int64_t elements, int rank) {
  return whole.reshape({samples, whole.num_elements() / samples})
      .columns(rank * elements, elements);
}

}  // namespace

PendingGather start_gather_rows(kernels::Exec& exec, comm::Communicator& comm, ConstView part,
                                View whole_TH, const SequenceShard& shard, std::string_view label) {
  PendingGather pending;
  pending.whole = whole_TH;
  pending.shard = shard;
  if (is_plain(comm, shard)) {
    pending.ticket = start_all_gather_rows(exec, comm, part, whole_TH, label);
    return pending;
  }
  const int64_t elements = shard.samples * part_elements(comm, whole_TH, shard);
  pending.packed = exec.workspace.tensor(whole_TH.dtype(), {comm.size(), elements});
  pending.ticket = comm.start_all_gather(part.reshape({1, elements}), pending.packed, label);
  return pending;
}

void finish(kernels::Exec& exec, comm::Communicator& comm, PendingGather pending) {
  comm.wait(std::move(pending.ticket));
  if (pending.packed.view.absent()) return;
  const int64_t samples = pending.shard.samples;
  const int64_t elements = part_elements(comm, pending.whole, pending.shard);
  for (int rank = 0; rank < comm.size(); ++rank) {
    exec.device.copy(rows_of_rank(pending.whole, samples, elements, rank),
                     pending.packed.view.rows(rank, 1).reshape({samples, elements}));
  }
}

PendingScatter start_scatter_rows(kernels::Exec& exec, comm::Communicator& comm,
                                  ConstView partial_TH, View part, const SequenceShard& shard,
                                  std::string_view label) {
  PendingScatter pending;
  if (is_plain(comm, shard)) {
    pending.sum = start_tree_reduce_scatter(exec, comm, partial_TH, part, Store::overwrite, label);
    return pending;
  }
  const int64_t elements = part_elements(comm, partial_TH, shard);
  pending.packed =
      exec.workspace.tensor(partial_TH.dtype(), {comm.size(), shard.samples * elements});
  for (int rank = 0; rank < comm.size(); ++rank) {
    exec.device.copy(pending.packed.view.rows(rank, 1).reshape({shard.samples, elements}),
                     rows_of_rank(partial_TH, shard.samples, elements, rank));
  }
  pending.sum =
      start_tree_reduce_scatter(exec, comm, pending.packed, part, Store::overwrite, label);
  return pending;
}

void finish(kernels::Exec& exec, comm::Communicator& comm, PendingScatter pending) {
  finish(exec, comm, std::move(pending.sum));
}

}  // namespace megalith::parallel

// SPDX-License-Identifier: Apache-2.0
// Sums over ranks in the canonical order, so that the layout does not change the bits. Each rank
// holds the f32 partial of its own contiguous block of shards, already combined in the tree of
// tree.h; ranks_fit(shards, comm.size()) must hold. The result equals, bit for bit, one rank's tree
// over all shards.
//
// Direct reduce-scatter: part r of every partial goes to rank r (all_to_all), which adds the pieces
// in tree order (kernel tree_sum); an all_gather makes it an all-reduce. Wire bytes per rank, N
// bytes in all on s ranks: N (s-1)/s for each half, as a ring has it, but with a fixed order.
//
// With one rank nothing is queued and nothing allocated (a result elsewhere than the partial is
// copied). Scratch: N bytes of `workspace` between start and finish, on every rank the same (with
// rows that are not divisible the last parts are shorter, their room is not).
#pragma once

#include <string_view>

#include "comm/communicator.h"
#include "kernels/exec.h"

namespace megalith::parallel {

enum class Store : uint8_t { overwrite, accumulate };

/// A reduce-scatter under way. Destroyed unfinished (an exception), it withdraws its buffers.
struct PendingReduceScatter {
  View y;
  Store store = Store::overwrite;
  device::Tensor pieces;
  comm::Ticket ticket;  // last: destroyed before the buffer it guards
};

/// x_TH: f32 partial [rows, ...], untouched until finish. y: f32, this rank's part of the rows of
/// the sum (comm::part_of), stored or added (y + tree) at finish; y may be that very part of x when
/// it overwrites. Collective over `comm`.
PendingReduceScatter start_tree_reduce_scatter(kernels::Exec& exec, comm::Communicator& comm,
                                               ConstView x_TH, View y, Store store,
                                               std::string_view label);
void finish(kernels::Exec& exec, comm::Communicator& comm, PendingReduceScatter pending);
void tree_reduce_scatter(kernels::Exec& exec, comm::Communicator& comm, ConstView x_TH, View y,
                         Store store, std::string_view label);

/// An all-reduce under way: its first half (each rank's part of the sum), then its second (the
/// parts to all).
struct PendingAllReduce {
  View x;
  std::string label;
  PendingReduceScatter scatter;
  comm::Ticket gather;
  bool in_second_half = false;
};

/// x: f32, any shape, in place. Collective over `comm`; between start and finish x must not be
/// touched.
PendingAllReduce start_tree_all_reduce(kernels::Exec& exec, comm::Communicator& comm, View x,
                                       std::string_view label);
/// comm::Communicator::advance on the half that is under way.
void advance(comm::Communicator& comm, const PendingAllReduce& pending);
/// Waits for the first half, adds, gives its scratch back and starts the second, which needs none.
/// Once; `finish` does it where nobody has.
void start_second_half(kernels::Exec& exec, comm::Communicator& comm, PendingAllReduce& pending);
void finish(kernels::Exec& exec, comm::Communicator& comm, PendingAllReduce pending);
void tree_all_reduce(kernels::Exec& exec, comm::Communicator& comm, View x, std::string_view label);

/// whole = the ranks' parts of its rows, any dtype; part may be that very part of whole.
comm::Ticket start_all_gather_rows(kernels::Exec& exec, comm::Communicator& comm, ConstView part,
                                   View whole, std::string_view label);
void all_gather_rows(kernels::Exec& exec, comm::Communicator& comm, ConstView part, View whole,
                     std::string_view label);

/// This rank's part of the rows of x.
View own_rows(const comm::Communicator& comm, View x);
ConstView own_rows(const comm::Communicator& comm, ConstView x);

}  // namespace megalith::parallel

// SPDX-License-Identifier: Apache-2.0
// Sums over ranks in the canonical order, so that the layout does not change the bits. Each rank
// holds the f32 partial of its own contiguous block of shards, already combined in the tree of
// tree.h; ranks_fit(shards, comm.size()) must hold. The result equals, bit for bit, one rank's tree
// over all shards.
//
// A direct reduce-scatter: part r of every partial goes to rank r (all_to_all), which adds the
// pieces in tree order (kernel tree_sum). An all_gather makes it an all-reduce. For N bytes on s
// ranks each half sends N (s-1)/s bytes per rank, as many as a ring does, but in a fixed order.
//
// With one rank nothing is queued and nothing allocated (a result that is not in place is copied).
// Scratch between start and finish: N bytes of `workspace`, the same on every rank (if rows do not
// divide evenly, the last parts are shorter but their room is not).
#pragma once

#include <string_view>

#include "comm/communicator.h"
#include "kernels/exec.h"

namespace megalith::parallel {

enum class Store : uint8_t { overwrite, accumulate };

/// A reduce-scatter under way. If it is destroyed unfinished (an exception), it withdraws its
/// buffers.
struct PendingReduceScatter {
  View y;
  Store store = Store::overwrite;
  device::Tensor pieces;
  comm::Ticket ticket;  // last: destroyed before the buffer it guards
};

/// x_TH: f32 partial [rows, ...], not to be touched until finish.
/// y: f32, this rank's part of the rows of the sum (comm::part_of); finish stores it, or adds it
/// (y + tree). When it stores, y may be that very part of x. Collective over `comm`.
PendingReduceScatter start_tree_reduce_scatter(kernels::Exec& exec, comm::Communicator& comm,
                                               ConstView x_TH, View y, Store store,
                                               std::string_view label);
void finish(kernels::Exec& exec, comm::Communicator& comm, PendingReduceScatter pending);
void tree_reduce_scatter(kernels::Exec& exec, comm::Communicator& comm, ConstView x_TH, View y,
                         Store store, std::string_view label);

/// An all-reduce under way: first each rank gets its part of the sum, then all parts go to all.
struct PendingAllReduce {
  View x;
  std::string label;
  PendingReduceScatter scatter;
  comm::Ticket gather;
  bool in_second_half = false;
};

/// x: f32, any shape, summed in place; not to be touched between start and finish. Collective over
/// `comm`.
PendingAllReduce start_tree_all_reduce(kernels::Exec& exec, comm::Communicator& comm, View x,
                                       std::string_view label);
/// comm::Communicator::advance for the half that is under way.
void advance(comm::Communicator& comm, const PendingAllReduce& pending);
/// Waits for the first half, adds, returns its scratch and starts the second half, which needs
/// none. At most once; `finish` does it if nobody has.
void start_second_half(kernels::Exec& exec, comm::Communicator& comm, PendingAllReduce& pending);
void finish(kernels::Exec& exec, comm::Communicator& comm, PendingAllReduce pending);
void tree_all_reduce(kernels::Exec& exec, comm::Communicator& comm, View x, std::string_view label);

/// whole = all ranks' parts of its rows, any dtype, overwritten when the ticket is done; part may
/// be this rank's own rows of whole. Collective over `comm`.
comm::Ticket start_all_gather_rows(kernels::Exec& exec, comm::Communicator& comm, ConstView part,
                                   View whole, std::string_view label);
void all_gather_rows(kernels::Exec& exec, comm::Communicator& comm, ConstView part, View whole,
                     std::string_view label);

/// This rank's part of the rows of x.
View own_rows(const comm::Communicator& comm, View x);
ConstView own_rows(const comm::Communicator& comm, ConstView x);

}  // namespace megalith::parallel

// SPDX-License-Identifier: Apache-2.0
// ZeRO stage 1 (Rajbhandari et al. 2020): the data ranks hold the same weights, each updates a run
// of them (parameters/ownership.h) and alone keeps masters and moments for it. Gradients go to
// their owner, updated weights come back: together the bytes of the all-reduce that they replace.
// Runs have any length, so everything travels as sends between pairs; nothing is packed, since the
// elements of an owner lie side by side in the flat ranges.
//
// All are collective over `data`; but for the start of a pair they are done when they return.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "kernels/exec.h"
#include "parameters/parameter_set.h"

namespace megalith::optim {

/// Gradients of some parameters on their way to their owners. Destroyed unfinished (an exception),
/// they withdraw their buffers.
struct PendingToOwners {
  std::vector<parameters::ElementRange> mine;  // in the flat sums
  device::Tensor pieces;                       // [ranks, elements of mine]
  std::vector<comm::Ticket> tickets;           // last: destroyed before the buffers they guard
};

/// On gradient level 0, for the parameters of a run: the gradient sums of the owned elements (all
/// partial rows, both sides of a tied table) become, at finish, the canonical tree over the ranks'
/// (parallel/canonical.h); others are spent. None may be touched in between. Scratch between the
/// two: the owned elements once for each rank.
PendingToOwners start_to_owners(kernels::Exec& exec, comm::Communicator& data,
                                parameters::ParameterSet& set, const parameters::ParameterRun& run);
void finish(kernels::Exec& exec, comm::Communicator& data, parameters::ParameterSet& set,
            PendingToOwners pending);

/// Compute weights: each owner's elements to everybody.
void share_weights(kernels::Exec& exec, comm::Communicator& data, parameters::ParameterSet& set);

/// A state tensor that is spread over its owners, brought together on one of them (what a
/// checkpoint writes): whole_N [local elements] is overwritten on rank `root` and absent elsewhere;
/// `owned` is this rank's run of it.
void collect_owned(kernels::Exec& exec, comm::Communicator& data,
                   const parameters::ParameterSet& set, size_t index, ConstView owned, int root,
                   View whole_N);

}  // namespace megalith::optim

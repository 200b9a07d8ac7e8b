// SPDX-License-Identifier: Apache-2.0
// ZeRO stage 1 (Rajbhandari et al. 2020): the data ranks hold the same weights; each updates a run
// of them (parameters/ownership.h) and alone keeps masters and moments for it. Gradients go to
// their owner, updated weights come back: together the bytes of the all-reduce that they replace.
// Runs have any length, so everything travels as sends between pairs. Nothing is packed, since an
// owner's elements lie side by side in the flat ranges.
//
// All functions are collective over `data`; except for the start of a pair, they are done when they
// return.
#pragma once

#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "kernels/exec.h"
#include "parameters/parameter_set.h"

namespace megalith::optim {

/// Gradients of some parameters on their way to their owners. If it is destroyed unfinished (an
/// exception), it withdraws its buffers.
struct PendingToOwners {
  std::vector<parameters::ElementRange> mine;  // in the flat sums
  device::Tensor pieces;                       // [ranks, elements of mine]
  std::vector<comm::Ticket> tickets;           // last: destroyed before the buffers they guard
};

/// Starts the sums of a run's gradients, level 0. At finish the sums of the owned elements (all
/// partial rows, both sides of a tied table) become the canonical tree over the ranks
/// (parallel/canonical.h); what the other elements hold is unspecified. Nothing may touch either in
/// between. Scratch until then: the owned elements once per rank.
PendingToOwners start_to_owners(kernels::Exec& exec, comm::Communicator& data,
                                parameters::ParameterSet& set, const parameters::ParameterRun& run);
void finish(kernels::Exec& exec, comm::Communicator& data, parameters::ParameterSet& set,
            PendingToOwners pending);

/// Where a parameter's elements lie, as one run: compute weights, codes of them; absent: nowhere.
using Place = std::function<View(const parameters::Parameter& parameter)>;
/// Sends each owner's elements of what parameters have in `flat` to all ranks.
void share_owned(comm::Communicator& data, const parameters::ParameterSet& set, View flat,
                 const Place& place);
/// Compute weights, of all parameters that `shared` says: sends each owner's elements to all ranks.
void share_weights(kernels::Exec& exec, comm::Communicator& data, parameters::ParameterSet& set,
                   const std::function<bool(const parameters::Parameter&)>& shared);

/// Brings a spread state tensor together on rank `root`, for a checkpoint. whole_N [local elements]
/// is overwritten there and absent elsewhere; `owned` is this rank's run of it.
void collect_owned(kernels::Exec& exec, comm::Communicator& data,
                   const parameters::ParameterSet& set, size_t index, ConstView owned, int root,
                   View whole_N);

}  // namespace megalith::optim

// SPDX-License-Identifier: Apache-2.0
#include "optim/sharding.h"

#include "kernels/reduction/tree_sum.h"

namespace megalith::optim {
namespace {

using parameters::ElementRange;
using parameters::Parameter;

/// Appends [begin, begin + count), to the last run when only alignment lies between.
void append(std::vector<ElementRange>& runs, int64_t begin, int64_t count) {
  constexpr int64_t kLargestGap = 63;
  if (count == 0) return;
  if (!runs.empty()) {
    const int64_t gap = begin - (runs.back().begin + runs.back().count);
    if (gap >= 0 && gap <= kLargestGap) {
      runs.back().count += gap + count;
      return;
    }
  }
  runs.push_back({begin, count});
}

/// Where in the flat gradient sums the elements of an owner are, of the parameters of a run.
std::vector<ElementRange> gradient_runs(const parameters::ParameterSet& set, int owner,
                                        const parameters::ParameterRun& run) {
  const std::vector<ElementRange>& owned = set.owned_by(owner);
  std::vector<ElementRange> runs;
  for (size_t i = run.begin; i < run.end; ++i) {
    const Parameter& parameter = set.all()[i];
    if (!parameter.trainable()) continue;
    const int64_t begin = set.gradient_begin(i);
    const int64_t each = (set.gradient_begin(i + 1) - begin) / parameter.num_gradients();
    const bool has_rows = parameter.declaration().gradient_partials > 1;  // one owner has all
    for (int which = 0; which < parameter.num_gradients(); ++which) {
      const int64_t count =
          has_rows && owned[i].count > 0 ? parameter.gradient_sum().num_elements() : owned[i].count;
      append(runs, begin + which * each + owned[i].begin, count);
    }
  }
  return runs;
}

/// Where in `flat` an owner's elements are.
std::vector<ElementRange> runs_of(const parameters::ParameterSet& set, const View& flat,
                                  const Place& place, int owner) {
  const std::vector<ElementRange>& owned = set.owned_by(owner);
  std::vector<ElementRange> runs;
  size_t i = 0;
  for (const Parameter& parameter : set.all()) {
    const ElementRange range = owned[i++];
    const View view = place(parameter);
    if (view.absent()) continue;
    const int64_t begin = (view.data() - flat.data()) / bytes_of(flat.dtype());
    append(runs, begin + range.begin, range.count);
  }
  return runs;
}

int64_t elements_of(const std::vector<ElementRange>& runs) {
  int64_t sum = 0;
  for (const ElementRange& run : runs) sum += run.count;
  return sum;
}

void wait_all(comm::Communicator& data, std::vector<comm::Ticket>& tickets) {
  for (comm::Ticket& ticket : tickets) data.wait(std::move(ticket));
}

}  // namespace

PendingToOwners start_to_owners(kernels::Exec& exec, comm::Communicator& data,
                                parameters::ParameterSet& set,
                                const parameters::ParameterRun& run) {
  const View flat = set.flat_gradient_sums();
  PendingToOwners pending;
  pending.mine = gradient_runs(set, data.rank(), run);
  const int64_t elements = elements_of(pending.mine);
  pending.pieces = exec.workspace.tensor(flat.dtype(), {data.size(), elements});
  for (int rank = 0; rank < data.size(); ++rank) {
    int64_t at = 0;
    const View piece = pending.pieces.view.rows(rank, 1).reshape({elements});
    for (const ElementRange& part : pending.mine) {
      const View into = piece.rows(at, part.count);
      if (rank == data.rank()) {
        exec.device.copy(into, flat.rows(part.begin, part.count));
      } else {
        pending.tickets.push_back(data.start_receive(rank, into, "gradients"));
      }
      at += part.count;
    }
    if (rank == data.rank()) continue;
    for (const ElementRange& part : gradient_runs(set, rank, run)) {
      pending.tickets.push_back(
          data.start_send(rank, flat.rows(part.begin, part.count), "gradients"));
    }
  }
  return pending;
}

void finish(kernels::Exec& exec, comm::Communicator& data, parameters::ParameterSet& set,
            PendingToOwners pending) {
  wait_all(data, pending.tickets);
  const View flat = set.flat_gradient_sums();
  int64_t at = 0;
  for (const ElementRange& part : pending.mine) {
    kernels::tree_sum(
        exec, {pending.pieces.view.columns(at, part.count), flat.rows(part.begin, part.count)});
    at += part.count;
  }
}

void share_owned(comm::Communicator& data, const parameters::ParameterSet& set, View flat,
                 const Place& place) {
  std::vector<comm::Ticket> tickets;
  const auto mine = runs_of(set, flat, place, data.rank());
  for (int rank = 0; rank < data.size(); ++rank) {
    if (rank == data.rank()) continue;
    for (const ElementRange& run : runs_of(set, flat, place, rank))
      tickets.push_back(data.start_receive(rank, flat.rows(run.begin, run.count), "weights"));
    for (const ElementRange& run : mine)
      tickets.push_back(data.start_send(rank, flat.rows(run.begin, run.count), "weights"));
  }
  wait_all(data, tickets);
}

void share_weights(kernels::Exec& exec, comm::Communicator& data, parameters::ParameterSet& set,
                   const std::function<bool(const Parameter&)>& shared) {
  if (data.size() == 1) return;
  const device::NameScope scope(exec.device, "optimizer");
  for (const auto& [format, tensor] : set.flat_computes()) {
    share_owned(data, set, tensor, [&](const Parameter& parameter) {
      const bool is_here = parameter.format() == format && shared(parameter);
      return is_here ? parameter.mutable_compute() : View();
    });
  }
  for (Parameter& parameter : set.all()) {
    if (parameter.trainable() && shared(parameter)) parameter.mark_changed();
  }
}

void collect_owned(kernels::Exec& exec, comm::Communicator& data,
                   const parameters::ParameterSet& set, size_t index, ConstView owned, int root,
                   View whole_N) {
  std::vector<comm::Ticket> tickets;
  if (data.rank() != root) {
    if (owned.num_elements() > 0) tickets.push_back(data.start_send(root, owned, "state"));
    return wait_all(data, tickets);
  }
  for (int rank = 0; rank < data.size(); ++rank) {
    const ElementRange range = set.owned_by(rank)[index];
    const View part = whole_N.rows(range.begin, range.count);
    if (range.count == 0) continue;
    if (rank == root) {
      exec.device.copy(part, owned);
    } else {
      tickets.push_back(data.start_receive(rank, part, "state"));
    }
  }
  wait_all(data, tickets);
}

}  // namespace megalith::optim

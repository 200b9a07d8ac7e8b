// SPDX-License-Identifier: Apache-2.0
#include "optim/sharding.h"

#include "kernels/reduction/tree_sum.h"
#include "parameters/ownership.h"

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

int64_t offset_in(ConstView flat, ConstView part) {
  return (part.data() - flat.data()) / bytes_of(flat.dtype());
}

/// Where in the flat gradient sums the owner's elements are.
std::vector<ElementRange> gradient_runs(const parameters::ParameterSet& set, int owner,
                                        int owners) {
  const auto ranges = parameters::owned_ranges(set.all(), owner, owners);
  const View flat = set.flat_gradient_sums();
  std::vector<ElementRange> runs;
  size_t i = 0;
  for (const Parameter& parameter : set.all()) {
    const ElementRange& range = ranges[i++];
    for (int which = 0; which < parameter.num_gradients(); ++which) {
      const View sum = parameter.gradient_sum(which);
      const bool has_rows = parameter.declaration().gradient_partials > 1;  // one owner has all
      const int64_t count = has_rows && range.count > 0 ? sum.num_elements() : range.count;
      append(runs, offset_in(flat, sum) + range.begin, count);
    }
  }
  return runs;
}

std::vector<ElementRange> weight_runs(const parameters::ParameterSet& set, int owner, int owners) {
  const auto ranges = parameters::owned_ranges(set.all(), owner, owners);
  std::vector<ElementRange> runs;
  size_t i = 0;
  for (const Parameter& parameter : set.all()) {
    const ElementRange& range = ranges[i++];
    append(runs, offset_in(set.flat_compute(), parameter.compute()) + range.begin, range.count);
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

void reduce_scatter_gradients(kernels::Exec& exec, comm::Communicator& data,
                              parameters::ParameterSet& set) {
  if (data.size() == 1) return;
  const View flat = set.flat_gradient_sums();
  const auto mine = gradient_runs(set, data.rank(), data.size());
  const device::Tensor pieces =
      exec.workspace.tensor(flat.dtype(), {data.size(), elements_of(mine)});
  std::vector<comm::Ticket> tickets;
  for (int rank = 0; rank < data.size(); ++rank) {
    int64_t at = 0;
    const View piece = pieces.view.rows(rank, 1).reshape({elements_of(mine)});
    for (const ElementRange& run : mine) {
      const View into = piece.rows(at, run.count);
      if (rank == data.rank()) {
        exec.device.copy(into, flat.rows(run.begin, run.count));
      } else {
        tickets.push_back(data.start_receive(rank, into, "gradients"));
      }
      at += run.count;
    }
    if (rank == data.rank()) continue;
    for (const ElementRange& run : gradient_runs(set, rank, data.size()))
      tickets.push_back(data.start_send(rank, flat.rows(run.begin, run.count), "gradients"));
  }
  wait_all(data, tickets);
  int64_t at = 0;
  for (const ElementRange& run : mine) {
    kernels::tree_sum(exec, {pieces.view.columns(at, run.count), flat.rows(run.begin, run.count)});
    at += run.count;
  }
}

void share_weights(kernels::Exec& exec, comm::Communicator& data, parameters::ParameterSet& set) {
  if (data.size() == 1) return;
  const device::NameScope scope(exec.device, "optimizer");
  const View flat = set.flat_compute();
  std::vector<comm::Ticket> tickets;
  for (int rank = 0; rank < data.size(); ++rank) {
    if (rank == data.rank()) continue;
    for (const ElementRange& run : weight_runs(set, rank, data.size()))
      tickets.push_back(data.start_receive(rank, flat.rows(run.begin, run.count), "weights"));
    for (const ElementRange& run : weight_runs(set, data.rank(), data.size()))
      tickets.push_back(data.start_send(rank, flat.rows(run.begin, run.count), "weights"));
  }
  wait_all(data, tickets);
  for (Parameter& parameter : set.all()) parameter.mark_changed();
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
    const ElementRange range = parameters::owned_ranges(set.all(), rank, data.size())[index];
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

// SPDX-License-Identifier: Apache-2.0
#include "parallel/canonical.h"

#include "base/check.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::parallel {
namespace {

Shape flat(int64_t elements) { return {elements}; }

/// One rank: the partial is the sum.
void store_alone(kernels::Exec& exec, ConstView x, View y, Store store) {
  if (x.num_elements() == 0) return;
  const int64_t n = x.num_elements();
  if (store == Store::accumulate) {
    kernels::tree_sum(exec, {x.reshape({1, n}), y.reshape(flat(n)), true});
  } else if (x.data() != y.data()) {
    exec.device.copy(y.reshape(flat(n)), x.reshape(flat(n)));
  }
}

int64_t part_elements(ConstView x, int rank, int size) {
  const int64_t rows = x.size(0);
  return rows == 0 ? 0 : x.num_elements() / rows * comm::part_of(rows, rank, size).count;
}

template <typename AnyView>
AnyView own_part(const comm::Communicator& comm, AnyView x) {
  const comm::Part part = comm::part_of(x.size(0), comm.rank(), comm.size());
  return x.rows(part.begin, part.count);
}

}  // namespace

View own_rows(const comm::Communicator& comm, View x) { return own_part(comm, x); }
ConstView own_rows(const comm::Communicator& comm, ConstView x) { return own_part(comm, x); }

PendingReduceScatter start_tree_reduce_scatter(kernels::Exec& exec, comm::Communicator& comm,
                                               ConstView x_TH, View y, Store store,
                                               std::string_view label) {
  MEGA_CHECK(x_TH.dtype() == DType::f32 && y.dtype() == DType::f32, "'{}' sums {} into {}", label,
             x_TH.dtype(), y.dtype());
  MEGA_CHECK_EQ(y.num_elements(), own_rows(comm, x_TH).num_elements());
  PendingReduceScatter pending;
  pending.y = y;
  pending.store = store;
  if (comm.size() == 1) {
    store_alone(exec, x_TH, y, store);
    return pending;
  }
  const int64_t longest = part_elements(x_TH, 0, comm.size());
  pending.pieces = exec.workspace.tensor(DType::f32, {comm.size(), longest});
  pending.pieces.view =
      View(pending.pieces.view.data(), DType::f32, {comm.size(), y.num_elements()});
  pending.ticket = comm.start_all_to_all(x_TH, pending.pieces, label);
  return pending;
}

void finish(kernels::Exec& exec, comm::Communicator& comm, PendingReduceScatter pending) {
  comm.wait(std::move(pending.ticket));
  const int64_t n = pending.y.num_elements();
  if (comm.size() == 1 || n == 0) return;
  kernels::tree_sum(
      exec, {pending.pieces, pending.y.reshape(flat(n)), pending.store == Store::accumulate});
}

void tree_reduce_scatter(kernels::Exec& exec, comm::Communicator& comm, ConstView x_TH, View y,
                         Store store, std::string_view label) {
  finish(exec, comm, start_tree_reduce_scatter(exec, comm, x_TH, y, store, label));
}

PendingAllReduce start_tree_all_reduce(kernels::Exec& exec, comm::Communicator& comm, View x,
                                       std::string_view label) {
  PendingAllReduce pending;
  pending.x = x.reshape(flat(x.num_elements()));
  if (comm.size() == 1) return pending;
  pending.label = label;
  pending.scatter = start_tree_reduce_scatter(exec, comm, pending.x, own_rows(comm, pending.x),
                                              Store::overwrite, label);
  return pending;
}

void start_second_half(kernels::Exec& exec, comm::Communicator& comm, PendingAllReduce& pending) {
  MEGA_CHECK(!pending.in_second_half, "second half of '{}' started twice", pending.label);
  pending.in_second_half = true;
  if (comm.size() == 1) return;
  finish(exec, comm, std::move(pending.scatter));
  pending.gather =
      start_all_gather_rows(exec, comm, own_rows(comm, pending.x), pending.x, pending.label);
}

void advance(comm::Communicator& comm, const PendingAllReduce& pending) {
  comm.advance(pending.in_second_half ? pending.gather : pending.scatter.ticket);
}

void finish(kernels::Exec& exec, comm::Communicator& comm, PendingAllReduce pending) {
  if (!pending.in_second_half) start_second_half(exec, comm, pending);
  comm.wait(std::move(pending.gather));
}

void tree_all_reduce(kernels::Exec& exec, comm::Communicator& comm, View x,
                     std::string_view label) {
  finish(exec, comm, start_tree_all_reduce(exec, comm, x, label));
}

comm::Ticket start_all_gather_rows(kernels::Exec& exec, comm::Communicator& comm, ConstView part,
                                   View whole, std::string_view label) {
  if (comm.size() > 1) return comm.start_all_gather(part, whole, label);
  store_alone(exec, part, whole, Store::overwrite);
  return {};
}

void all_gather_rows(kernels::Exec& exec, comm::Communicator& comm, ConstView part, View whole,
                     std::string_view label) {
  comm.wait(start_all_gather_rows(exec, comm, part, whole, label));
}

}  // namespace megalith::parallel

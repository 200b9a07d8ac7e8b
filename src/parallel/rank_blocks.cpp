// SPDX-License-Identifier: Apache-2.0
#include "parallel/rank_blocks.h"

#include <vector>

#include "base/check.h"
#include "kernels/reduction/tree_sum.h"

namespace megalith::parallel {
namespace {

/// Every rank of the block sends every other its message and has one of each.
template <typename Send, typename Receive>
void exchange_in_block(comm::Communicator& group, int size, std::string_view label, Send to_send,
                       Receive to_receive) {
  MEGA_CHECK(size >= 1 && group.size() % size == 0, "blocks of {} among {} ranks", size,
             group.size());
  const int first = group.rank() / size * size;
  std::vector<comm::Ticket> tickets;
  for (int j = 0; j < size; ++j) {
    if (first + j == group.rank()) continue;
    const ConstView out = to_send(j);
    const View in = to_receive(j);
    if (out.num_elements() > 0) tickets.push_back(group.start_send(first + j, out, label));
    if (in.num_elements() > 0) tickets.push_back(group.start_receive(first + j, in, label));
  }
  for (comm::Ticket& ticket : tickets) group.wait(std::move(ticket));
}

}  // namespace

void gather_in_block(comm::Communicator& group, int size, View parts_PN, std::string_view label) {
  MEGA_CHECK_EQ(parts_PN.size(0), size);
  const View own = parts_PN.rows(group.rank() % size, 1);
  exchange_in_block(
      group, size, label, [&](int) { return own; }, [&](int j) { return parts_PN.rows(j, 1); });
}

void tree_sum_in_block(kernels::Exec& exec, comm::Communicator& group, int size, View x_TH,
                       std::string_view label) {
  if (size == 1) return;
  const int rank = group.rank() % size;
  const auto part = [&](int j) {
    const comm::Part rows = comm::part_of(x_TH.size(0), j, size);
    return x_TH.rows(rows.begin, rows.count);
  };
  const View own = part(rank);
  const int64_t longest = part(0).num_elements();
  {
    const device::Tensor pieces = exec.workspace.tensor(x_TH.dtype(), Shape{size, longest});
    const View pieces_PN(pieces.view.data(), x_TH.dtype(), Shape{size, own.num_elements()});
    const auto piece = [&](int j) { return pieces_PN.rows(j, 1).reshape(own.shape()); };
    exchange_in_block(group, size, label, part, piece);
    if (own.num_elements() > 0) {
      exec.device.copy(piece(rank), own);
      kernels::tree_sum(exec, {pieces_PN, own.reshape(Shape{own.num_elements()})});
    }
  }
  exchange_in_block(
      group, size, label, [&](int) { return own; }, part);
}

}  // namespace megalith::parallel

// SPDX-License-Identifier: Apache-2.0
// The part that is equal for all backends: checks, identities, groups.
#include "comm/communicator.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::comm {

Ticket Communicator::start_on_device(Operation operation) {
  operation.device = state().device;
  return record_and_start(operation);
}

Ticket Communicator::start_send(int peer, ConstView x, std::string_view label, int channel) {
  check_peer(peer);
  return start_on_device(send_of(peer, x, label, channel));
}

Ticket Communicator::start_receive(int peer, View x, std::string_view label, int channel) {
  check_peer(peer);
  return start_on_device(receive_of(peer, x, label, channel));
}

Ticket Communicator::start_all_gather(ConstView local, View all, std::string_view label) {
  return start_on_device(gather_of(local, all, rank(), size(), label));
}

Ticket Communicator::start_all_to_all(ConstView x, View y, std::string_view label) {
  Operation operation = whole_of(OperationKind::all_to_all, x, label);
  const Part part = part_of(operation.rows, rank(), size());
  MEGA_CHECK(y.is_contiguous() && x.dtype() == y.dtype() &&
                 y.num_elements() == size() * elements_of(operation, part.count),
             "all_to_all '{}': {} {} does not take {} times part {} of {} {}", label, y.shape(),
             y.dtype(), size(), rank(), x.shape(), x.dtype());
  operation.source = x;
  operation.target = y;
  return start_on_device(operation);
}

Ticket Communicator::start_broadcast(View x, int root, std::string_view label) {
  MEGA_CHECK(root >= 0 && root < size(), "broadcast '{}' from {} of {}", label, root, size());
  Operation operation = whole_of(OperationKind::broadcast, x, label);
  operation.root = root;
  operation.source = x;
  operation.target = x;
  return start_on_device(operation);
}

Ticket Communicator::start_all_reduce_max(View x, std::string_view label) {
  MEGA_CHECK(x.dtype() == DType::f32 || x.dtype() == DType::f64 || x.dtype() == DType::i64,
             "all_reduce_max '{}' of {}", label, x.dtype());
  return start_on_device(reduce_of(OperationKind::all_reduce_max, x, label));
}

Ticket Communicator::start_all_reduce_min(View x, std::string_view label) {
  MEGA_CHECK(x.dtype() == DType::i32, "all_reduce_min '{}' of {}", label, x.dtype());
  return start_on_device(reduce_of(OperationKind::all_reduce_min, x, label));
}

Ticket Communicator::start_all_reduce_sum(View x, std::string_view label) {
  MEGA_CHECK(x.dtype() == DType::i64, "all_reduce_sum '{}' of {}", label, x.dtype());
  return start_on_device(reduce_of(OperationKind::all_reduce_sum, x, label));
}

void Communicator::advance(const Ticket& ticket) {
  if (Pending* const pending = pending_of(ticket)) pending->advance();
}

std::unique_ptr<Communicator> Communicator::split(std::span<const Membership> of_rank,
                                                  std::string_view name) {
  MEGA_CHECK_EQ(static_cast<int>(of_rank.size()), size());
  const int color = of_rank[static_cast<size_t>(rank())].color;
  std::vector<int> members;
  for (int r = 0; r < size(); ++r) {
    if (of_rank[static_cast<size_t>(r)].color == color) members.push_back(r);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return of_rank[static_cast<size_t>(a)].key < of_rank[static_cast<size_t>(b)].key;
  });
  const auto place = std::find(members.begin(), members.end(), rank());
  Operation operation;
  operation.kind = OperationKind::split;
  operation.label = name;
  // The tables must agree; a sum of the entries stands for them in the comparison.
  for (const Membership& entry : of_rank) {
    operation.count = operation.count * 31 % 1'000'003 + entry.color * 101 + entry.key;
  }
  end(start_unrecorded(operation));
  return make_group(members, static_cast<int>(place - members.begin()), color, std::string(name));
}

std::unique_ptr<ControlMessages> Communicator::for_second_thread(std::string_view name) {
  Operation operation;
  operation.kind = OperationKind::split;
  operation.label = name;
  end(start_unrecorded(operation));
  auto state = std::make_shared<RankState>(this->state());
  state->device = nullptr;  // a recorder is of one thread
  return make_second(std::move(state), std::string(name));
}

}  // namespace megalith::comm

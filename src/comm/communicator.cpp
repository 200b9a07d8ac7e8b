// SPDX-License-Identifier: Apache-2.0
// The part that is equal for all backends: checks, identities, counting.
#include "comm/communicator.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"
#include "device/recorder.h"

namespace megalith::comm {
namespace {

int64_t rows_of(ConstView view) { return view.shape().num_dims() == 0 ? 1 : view.size(0); }

Operation whole_of(OperationKind kind, ConstView whole, std::string_view label) {
  MEGA_CHECK(whole.is_contiguous(), "{} '{}' of a view with gaps", kind, label);
  Operation operation;
  operation.kind = kind;
  operation.dtype = whole.dtype();
  operation.count = whole.num_elements();
  operation.rows = rows_of(whole);
  operation.label = label;
  return operation;
}

/// Elements in `rows` rows of the whole.
int64_t elements_of(const Operation& operation, int64_t rows) {
  return operation.rows == 0 ? 0 : operation.count / operation.rows * rows;
}

Operation gather_of(ConstView local, View all, int rank, int size, std::string_view label) {
  Operation operation = whole_of(OperationKind::all_gather, all, label);
  const Part part = part_of(operation.rows, rank, size);
  MEGA_CHECK(local.is_contiguous() && local.dtype() == all.dtype() &&
                 local.num_elements() == elements_of(operation, part.count),
             "all_gather '{}': local {} {} is not part {} of {} of {} {}", label, local.shape(),
             local.dtype(), rank, size, all.shape(), all.dtype());
  operation.source = local;
  operation.target = all;
  return operation;
}

}  // namespace

Communicator::Communicator(int rank, int size, std::string name, std::shared_ptr<RankState> state)
    : rank_(rank), size_(size), name_(std::move(name)), state_(std::move(state)) {
  MEGA_CHECK(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
}

device::Recorder* Communicator::recorder() const {
  return size_ > 1 && state_->device != nullptr ? state_->device->recorder() : nullptr;
}

Ticket Communicator::record_and_start(const Operation& operation) {
  if (device::Recorder* const recorder = this->recorder()) {
    const bool receives = operation.kind == OperationKind::transfer && !operation.is_sender;
    device::Work work;
    work.bytes_wire = wire_bytes(operation, rank_, size_);
    recorder->add(receives ? "receive" : name_of(operation.kind), work, 0, 0);
  }
  return start_unrecorded(operation);
}

Ticket Communicator::start_unrecorded(const Operation& operation) {
  if (size_ > 1) state_->last_call.note(operation, name_);
  Ticket ticket = start(operation);
  ticket.kind_ = operation.kind;
  return ticket;
}

Ticket Communicator::copy_to_self(const Operation& operation) {
  if (operation.source && operation.target && operation.count > 0 &&
      operation.source.data() != operation.target.data()) {
    std::memcpy(operation.target.data(), operation.source.data(),
                static_cast<size_t>(operation.source.bytes()));
  }
  return {};
}

Ticket Communicator::start_send(int peer, ConstView x, std::string_view label, int channel) {
  MEGA_CHECK(peer >= 0 && peer < size_ && peer != rank_, "rank {} of {} sends '{}' to {}", rank_,
             size_, label, peer);
  Operation operation = whole_of(OperationKind::transfer, x, label);
  operation.peer = peer;
  operation.is_sender = true;
  operation.channel = channel;
  operation.source = x;
  return record_and_start(operation);
}

Ticket Communicator::start_receive(int peer, View x, std::string_view label, int channel) {
  MEGA_CHECK(peer >= 0 && peer < size_ && peer != rank_, "rank {} of {} receives '{}' from {}",
             rank_, size_, label, peer);
  Operation operation = whole_of(OperationKind::transfer, x, label);
  operation.peer = peer;
  operation.channel = channel;
  operation.target = x;
  return record_and_start(operation);
}

Ticket Communicator::start_all_gather(ConstView local, View all, std::string_view label) {
  return record_and_start(gather_of(local, all, rank_, size_, label));
}

Ticket Communicator::start_all_to_all(ConstView x, View y, std::string_view label) {
  Operation operation = whole_of(OperationKind::all_to_all, x, label);
  const Part part = part_of(operation.rows, rank_, size_);
  MEGA_CHECK(y.is_contiguous() && x.dtype() == y.dtype() &&
                 y.num_elements() == size_ * elements_of(operation, part.count),
             "all_to_all '{}': {} {} does not take {} times part {} of {} {}", label, y.shape(),
             y.dtype(), size_, rank_, x.shape(), x.dtype());
  operation.source = x;
  operation.target = y;
  return record_and_start(operation);
}

Ticket Communicator::start_broadcast(View x, int root, std::string_view label) {
  MEGA_CHECK(root >= 0 && root < size_, "broadcast '{}' from {} of {}", label, root, size_);
  Operation operation = whole_of(OperationKind::broadcast, x, label);
  operation.root = root;
  operation.source = x;
  operation.target = x;
  return record_and_start(operation);
}

Ticket Communicator::start_all_reduce_max(View x, std::string_view label) {
  MEGA_CHECK(x.dtype() == DType::f32 || x.dtype() == DType::f64 || x.dtype() == DType::i64,
             "all_reduce_max '{}' of {}", label, x.dtype());
  Operation operation =
      whole_of(OperationKind::all_reduce_max, x.reshape({x.num_elements()}), label);
  operation.source = x;
  operation.target = x;
  return record_and_start(operation);
}

Ticket Communicator::start_all_reduce_sum(View x, std::string_view label) {
  MEGA_CHECK(x.dtype() == DType::f32 || x.dtype() == DType::i64, "all_reduce_sum '{}' of {}", label,
             x.dtype());
  Operation operation =
      whole_of(OperationKind::all_reduce_sum, x.reshape({x.num_elements()}), label);
  operation.source = x;
  operation.target = x;
  return record_and_start(operation);
}

void Communicator::wait(Ticket ticket) {
  if (ticket.pending_ == nullptr) return;
  device::Recorder* const recorder = this->recorder();
  if (recorder == nullptr) return ticket.pending_->wait();
  const double begin = monotonic_seconds();
  ticket.pending_->wait();
  recorder->add(fmt::format("wait_{}", ticket.kind_), {}, begin, monotonic_seconds() - begin);
}

void Communicator::barrier(std::string_view label) {
  Operation operation;
  operation.label = label;
  wait(record_and_start(operation));
}

std::vector<std::string> Communicator::exchange(std::string_view mine, std::string_view label) {
  const auto gather = [&](View all) {
    wait(start_unrecorded(gather_of(all.rows(rank_, 1), all, rank_, size_, label)));
  };
  // Lengths first, then rows padded to the longest.
  std::vector<int64_t> lengths(static_cast<size_t>(size_));
  lengths[static_cast<size_t>(rank_)] = static_cast<int64_t>(mine.size());
  const View lengths_view(reinterpret_cast<std::byte*>(lengths.data()), DType::i64, Shape{size_});
  gather(lengths_view);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string rows(static_cast<size_t>(size_ * longest), '\0');
  if (!mine.empty()) {
    std::memcpy(rows.data() + rank_ * longest, mine.data(), mine.size());
  }
  const View rows_view(reinterpret_cast<std::byte*>(rows.data()), DType::u8, Shape{size_, longest});
  gather(rows_view);
  std::vector<std::string> all;
  for (int r = 0; r < size_; ++r) {
    all.push_back(rows.substr(static_cast<size_t>(r * longest),
                              static_cast<size_t>(lengths[static_cast<size_t>(r)])));
  }
  return all;
}

std::unique_ptr<Communicator> Communicator::split(std::span<const Membership> of_rank,
                                                  std::string_view name) {
  MEGA_CHECK_EQ(static_cast<int>(of_rank.size()), size_);
  const int color = of_rank[static_cast<size_t>(rank_)].color;
  std::vector<int> members;
  for (int r = 0; r < size_; ++r) {
    if (of_rank[static_cast<size_t>(r)].color == color) members.push_back(r);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return of_rank[static_cast<size_t>(a)].key < of_rank[static_cast<size_t>(b)].key;
  });
  const auto place = std::find(members.begin(), members.end(), rank_);
  Operation operation;
  operation.kind = OperationKind::split;
  operation.label = name;
  // The tables must agree; a sum of the entries stands for them in the comparison.
  for (const Membership& entry : of_rank) {
    operation.count = operation.count * 31 % 1'000'003 + entry.color * 101 + entry.key;
  }
  wait(start_unrecorded(operation));
  return make_group(members, static_cast<int>(place - members.begin()), color, std::string(name));
}

std::unique_ptr<Communicator> Communicator::for_second_thread(std::string_view name) {
  Operation operation;
  operation.kind = OperationKind::split;
  operation.label = name;
  wait(start_unrecorded(operation));
  auto state = std::make_shared<RankState>(*state_);
  state->device = nullptr;  // a recorder is of one thread
  return make_second(std::move(state), std::string(name));
}

void require_same(Communicator& comm, std::string_view what, std::string_view value) {
  const std::vector<std::string> all = comm.exchange(value, what);
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0]) {
      throw UserError(
          "{} differs between ranks: rank 0 of group '{}' has '{}', rank {} has '{}'; "
          "start all ranks with the same program, recipe and data",
          what, comm.name(), all[0], r, all[r]);
    }
  }
}

}  // namespace megalith::comm

// SPDX-License-Identifier: Apache-2.0
#include "comm/control_messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "comm/memory_mover.h"
#include "device/recorder.h"

namespace megalith::comm {

ControlMessages::ControlMessages(int rank, int size, std::string name,
                                 std::shared_ptr<RankState> state)
    : rank_(rank), size_(size), name_(std::move(name)), state_(std::move(state)) {
  MEGA_CHECK(size >= 1 && rank >= 0 && rank < size, "rank {} of {}", rank, size);
}

device::Recorder* ControlMessages::recorder() const {
  return size_ > 1 && state_->device != nullptr ? state_->device->recorder() : nullptr;
}

Ticket ControlMessages::record_and_start(const Operation& operation) {
  if (device::Recorder* const recorder = this->recorder()) {
    const bool receives = operation.kind == OperationKind::transfer && !operation.is_sender;
    device::Work work;
    work.bytes_wire = wire_bytes(operation, rank_, size_);
    recorder->add(receives ? "receive" : name_of(operation.kind), work, 0, 0);
  }
  return start_unrecorded(operation);
}

Ticket ControlMessages::start_unrecorded(const Operation& operation) {
  if (size_ > 1) state_->last_call.note(operation, name_);
  Ticket ticket = start(operation);
  ticket.kind_ = operation.kind;
  return ticket;
}

Ticket ControlMessages::copy_to_self(const Operation& operation) {
  if (!operation.source || !operation.target || operation.count == 0) return {};
  MemoryMover mover(operation.device);
  mover.copy(operation.target.data(), operation.source.data(), operation.source.bytes());
  mover.wait();
  return {};
}

void ControlMessages::end(Ticket ticket) {
  if (ticket.pending_ == nullptr) return;
  device::Recorder* const recorder = this->recorder();
  if (recorder == nullptr) return ticket.pending_->wait();
  const double begin = monotonic_seconds();
  ticket.pending_->wait();
  recorder->add(fmt::format("wait_{}", ticket.kind_), {}, begin, monotonic_seconds() - begin);
}

void ControlMessages::barrier(std::string_view label) {
  Operation operation;
  operation.label = label;
  end(record_and_start(operation));
}

std::vector<std::string> ControlMessages::exchange(std::string_view mine, std::string_view label) {
  const auto gather = [&](View all) {
    end(start_unrecorded(gather_of(all.rows(rank_, 1), all, rank_, size_, label)));
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

int64_t ControlMessages::sum(int64_t mine, std::string_view label) {
  const View view(reinterpret_cast<std::byte*>(&mine), DType::i64, Shape{1});
  end(record_and_start(reduce_of(OperationKind::all_reduce_sum, view, label)));
  return mine;
}

void ControlMessages::maximum(std::span<double> values, std::string_view label) {
  const View view(reinterpret_cast<std::byte*>(values.data()), DType::f64,
                  Shape{std::ssize(values)});
  end(record_and_start(reduce_of(OperationKind::all_reduce_max, view, label)));
}

void ControlMessages::send(int peer, std::span<const std::byte> bytes, std::string_view label) {
  check_peer(peer);
  const ConstView view(bytes.data(), DType::u8, Shape{std::ssize(bytes)});
  end(record_and_start(send_of(peer, view, label, 0)));
}

void ControlMessages::receive(int peer, std::span<std::byte> bytes, std::string_view label) {
  check_peer(peer);
  end(record_and_start(
      receive_of(peer, View(bytes.data(), DType::u8, Shape{std::ssize(bytes)}), label, 0)));
}

void ControlMessages::check_peer(int peer) const {
  MEGA_CHECK(peer >= 0 && peer < size_ && peer != rank_, "rank {} of {} and peer {}", rank_, size_,
             peer);
}

void require_same(ControlMessages& comm, std::string_view what, std::string_view value) {
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

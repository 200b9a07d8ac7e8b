// SPDX-License-Identifier: Apache-2.0
#include "comm/threads/rendezvous.h"

#include <thread>

#include "base/check.h"

namespace megalith::comm {
namespace {

int units_of(OperationKind kind, int places) {
  switch (kind) {
    case OperationKind::barrier:
    case OperationKind::split:
      return 0;
    case OperationKind::transfer:
      return 1;
    default:
      return places;
  }
}

}  // namespace

Rendezvous::Rendezvous(int places, const Operation& first)
    : label_(first.label),
      first_(first),
      posts_(static_cast<size_t>(places)),
      present_(static_cast<size_t>(places)),
      num_units_(units_of(first.kind, places)),
      claimed_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(num_units_))) {
  first_.label = label_;
}

void Rendezvous::post(int place, const Operation& operation) {
  MEGA_CHECK(!has_posted(place), "{} posted twice", describe(operation));
  if (first_place_ < 0) first_place_ = place;
  Operation& post = posts_[static_cast<size_t>(place)];
  post = operation;
  post.label = label_;
  present_[static_cast<size_t>(place)] = true;
  posted_.fetch_add(1, std::memory_order_acq_rel);
}

bool Rendezvous::matches(const Operation& operation) const {
  return operation.kind == first_.kind && operation.dtype == first_.dtype &&
         operation.count == first_.count && operation.rows == first_.rows &&
         operation.root == first_.root && operation.label == first_.label;
}

namespace {

/// A claimed unit counts as settled whatever its copy throws: who withdraws waits for it.
struct Settled {
  std::atomic<int>& count;
  ~Settled() { count.fetch_add(1, std::memory_order_acq_rel); }
};

}  // namespace

bool Rendezvous::do_units(int preferred, device::Device* device) {
  MemoryMover mover(device);
  bool completed = num_units_ == 0;
  for (int i = 0; i < num_units_; ++i) {
    const int unit = (preferred + i) % num_units_;
    if (!claim(unit)) continue;
    const Settled settled{settled_};
    run(unit, mover);
    mover.wait();
    completed |= done_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_units_;
  }
  return completed;
}

void Rendezvous::withdraw() {
  for (int unit = 0; unit < num_units_; ++unit) {
    if (claim(unit)) settled_.fetch_add(1, std::memory_order_acq_rel);
  }
  // What is left are copies that another rank has begun: a short time.
  while (settled_.load(std::memory_order_acquire) != num_units_) std::this_thread::yield();
}

void Rendezvous::run(int unit, MemoryMover& mover) const {
  switch (first_.kind) {
    case OperationKind::transfer:
      return mover.copy(posts_[1].target.data(), posts_[0].source.data(), posts_[0].source.bytes());
    case OperationKind::all_gather:
      return gather(unit, mover);
    case OperationKind::all_to_all:
      return exchange_pieces(unit, mover);
    case OperationKind::broadcast:
      return broadcast(unit, mover);
    case OperationKind::all_reduce_max:
    case OperationKind::all_reduce_min:
    case OperationKind::all_reduce_sum: {
      const Part part = part_of(first_.count, unit, places());
      return mover.reduce(posts_, part.begin, part.count);
    }
    case OperationKind::barrier:
    case OperationKind::split:
      return;
  }
}

void Rendezvous::gather(int unit, MemoryMover& mover) const {
  const View& all = posts_[static_cast<size_t>(unit)].target;
  if (all.num_elements() == 0) return;
  const int64_t row_bytes = all.bytes() / first_.rows;
  for (int r = 0; r < places(); ++r) {
    const Part part = part_of(first_.rows, r, places());
    mover.copy(all.data() + part.begin * row_bytes, posts_[static_cast<size_t>(r)].source.data(),
               part.count * row_bytes);
  }
}

void Rendezvous::exchange_pieces(int unit, MemoryMover& mover) const {
  if (first_.count == 0) return;
  const Part part = part_of(first_.rows, unit, places());
  const int64_t row_bytes = first_.count / first_.rows * bytes_of(first_.dtype);
  const int64_t part_bytes = part.count * row_bytes;
  for (int r = 0; r < places(); ++r) {
    mover.copy(posts_[static_cast<size_t>(unit)].target.data() + r * part_bytes,
               posts_[static_cast<size_t>(r)].source.data() + part.begin * row_bytes, part_bytes);
  }
}

void Rendezvous::broadcast(int unit, MemoryMover& mover) const {
  if (unit == first_.root) return;
  const Operation& from = posts_[static_cast<size_t>(first_.root)];
  mover.copy(posts_[static_cast<size_t>(unit)].target.data(), from.source.data(),
             from.source.bytes());
}

}  // namespace megalith::comm

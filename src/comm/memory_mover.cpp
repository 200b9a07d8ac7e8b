// SPDX-License-Identifier: Apache-2.0
#include "comm/memory_mover.h"

#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"

namespace megalith::comm {
namespace {

class QueuedReduction final : public device::QueuedKernel {
 public:
  QueuedReduction(std::span<const Operation> posts, int64_t begin, int64_t count)
      : posts_(posts.begin(), posts.end()), begin_(begin), count_(count) {}
  void run() override { reduce_piece(posts_, begin_, count_); }
  std::span<std::byte> addresses() override { return std::as_writable_bytes(std::span(posts_)); }

 private:
  std::vector<Operation> posts_;
  int64_t begin_, count_;
};

}  // namespace

void MemoryMover::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes == 0 || to == from) return;  // a part gathered in place is already there
  if (device_ == nullptr) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else {
    device_->copy(View(to, DType::u8, Shape{bytes}), ConstView(from, DType::u8, Shape{bytes}));
  }
}

void MemoryMover::reduce(std::span<const Operation> posts, int64_t begin, int64_t count) {
  if (device_ == nullptr) return reduce_piece(posts, begin, count);
  device_->enqueue(std::make_unique<QueuedReduction>(posts, begin, count));
}

}  // namespace megalith::comm

// SPDX-License-Identifier: Apache-2.0
#include "device/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/integer.h"

namespace megalith::device {
namespace {

class HostMemory final : public AddressSpace {
 public:
  explicit HostMemory(int64_t bytes) : bytes_(bytes) {
    void* base = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
      throw SystemError(
          "cannot reserve {} bytes of address space: {}; raise the address-space limit (ulimit -v)",
          bytes, std::strerror(errno));
    }
    base_ = static_cast<std::byte*>(base);
    madvise(base_, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a wish: refusal costs only speed
  }
  ~HostMemory() override { munmap(base_, static_cast<size_t>(bytes_)); }
  std::byte* base() const override { return base_; }
  int64_t capacity() const override { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  int64_t bytes_;
};

class NoMemory final : public AddressSpace {
 public:
  explicit NoMemory(int index) : index_(index) {}
  // Non-canonical x86-64 addresses: following one faults at once.
  std::byte* base() const override {
    return reinterpret_cast<std::byte*>(uintptr_t{0x0100000000000000} *
                                        static_cast<uintptr_t>(index_ + 1));
  }
  int64_t capacity() const override { return int64_t{1} << 55; }

 private:
  int index_;
};

}  // namespace

std::string_view name_of(MemoryClass memory_class) {
  constexpr std::array<std::string_view, kNumMemoryClasses> names{
      "weights", "gradients", "optimizer", "activations", "workspace", "snapshot"};
  return names[static_cast<size_t>(memory_class)];
}

std::unique_ptr<AddressSpace> reserve_host_memory(int64_t bytes) {
  return std::make_unique<HostMemory>(bytes);
}
std::unique_ptr<AddressSpace> reserve_nothing(int index) {
  return std::make_unique<NoMemory>(index);
}

Allocation::Allocation(Allocation&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      offset_(std::exchange(other.offset_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  if (this != &other) {
    release();
    arena_ = std::exchange(other.arena_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    offset_ = std::exchange(other.offset_, 0);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Allocation::release() {
  if (arena_ != nullptr && bytes_ > 0) arena_->free(offset_, bytes_);
  arena_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

Arena::Arena(MemoryClass memory_class, std::unique_ptr<AddressSpace> space, MemoryTotal* total)
    : class_(memory_class), space_(std::move(space)), total_(total) {}

Arena::~Arena() = default;

Allocation Arena::allocate(int64_t bytes) {
  MEGA_CHECK_GE(bytes, 0);
  const auto refuse = [&](int64_t size) {
    throw SystemError(
        "out of memory for {}: {} bytes asked, {} in use, {} in all; use a smaller model or "
        "micro-batch",
        name_of(class_), size, in_use_, space_->capacity());
  };
  if (bytes > space_->capacity()) refuse(bytes);  // and could not be rounded up
  const int64_t size = round_up(bytes, kAlignment);
  int64_t offset = end_;
  // First fit: the lowest hole that is large enough; else grow, from the last hole if it touches
  // the end.
  auto hole =
      std::ranges::find_if(holes_, [size](const auto& range) { return range.second >= size; });
  if (size > 0 && hole != holes_.end()) {
    offset = hole->first;
    const int64_t left = hole->second - size;
    holes_.erase(hole);
    if (left > 0) holes_[offset + size] = left;
  } else {
    if (size > space_->capacity() - end_) refuse(size);
    end_ += size;
  }
  in_use_ += size;
  high_water_ = std::max(high_water_, end_);
  total_->in_use += size;
  total_->peak = std::max(total_->peak, total_->in_use);
  if (observer_ != nullptr && size > 0) observer_->allocated(class_, offset, size);
  return {this, space_->base() + offset, offset, size};
}

Tensor Arena::tensor(DType dtype, const Shape& shape) {
  const auto bytes = checked_multiply(shape.num_elements(), bytes_of(dtype));
  MEGA_CHECK(bytes.has_value(), "{} of {} has more bytes than can be counted", shape, dtype);
  Tensor result{allocate(*bytes), {}};
  result.view = View(result.allocation.data(), dtype, shape);
  return result;
}

void Arena::free(int64_t offset, int64_t bytes) {
  if (observer_ != nullptr) observer_->freed(class_, offset);
  in_use_ -= bytes;
  total_->in_use -= bytes;
  auto next = holes_.lower_bound(offset);
  if (next != holes_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      holes_.erase(previous);
    }
  }
  if (next != holes_.end() && offset + bytes == next->first) {
    bytes += next->second;
    holes_.erase(next);
  }
  if (offset + bytes == end_) {
    end_ = offset;
  } else {
    holes_[offset] = bytes;
  }
}

}  // namespace megalith::device

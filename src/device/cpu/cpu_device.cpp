// SPDX-License-Identifier: Apache-2.0
// The cpu kind: host memory, one thread pool, work done when the call returns.
#include <cstring>

#include "base/check.h"
#include "device/available_memory.h"
#include "device/device.h"
#include "device/placement.h"

namespace megalith::device {
namespace {

/// Rows of a strided view, copied one by one.
void copy_rows(std::byte* dst, int64_t dst_stride, const std::byte* src, int64_t src_stride,
               int64_t rows, int64_t row_bytes) {
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(dst + i * dst_stride, src + i * src_stride, static_cast<size_t>(row_bytes));
  }
}

struct Rows {
  int64_t count, bytes, stride_bytes;
};
template <typename AnyView>
Rows rows_of(const AnyView& view) {
  if (view.is_contiguous() || view.shape().num_dims() < 2) return {1, view.bytes(), view.bytes()};
  return {view.size(0), view.bytes() / view.size(0), view.row_stride() * bytes_of(view.dtype())};
}

class CpuDevice final : public Device {
 public:
  CpuDevice(const Target& target) : Device(DeviceKind::cpu, target), pool_(target.num_threads) {
    set_pool(pool_);
    place_workers(pool_);
    // All of the memory per class, and for one rank as much again: reserving is free, and
    // fragmentation must never be what fails. But all ranks of a process share its 128 TiB of
    // addresses, and an address-space limit (ulimit -v) counts what is reserved too: half of
    // either.
    constexpr int64_t kAddressSpace = int64_t{1} << 47;
    const int64_t left = available_memory().address_space_free.value_or(kAddressSpace);
    int64_t reserve = std::min(memory_bytes() + memory_bytes() / target.ranks_here,
                               left / (2 * kNumMemoryClasses * target.ranks_here));
    reserve = reserve / kAlignment * kAlignment;
    for (int i = 0; i < kNumMemoryClasses; ++i) {
      arenas_[static_cast<size_t>(i)] = std::make_unique<Arena>(
          static_cast<MemoryClass>(i), reserve_host_memory(reserve), &total_);
    }
  }

  Ticket copy_to_device(View dst, const void* src) override {
    const Rows rows = rows_of(dst);
    if (dst.num_elements() > 0) {
      copy_rows(dst.data(), rows.stride_bytes, static_cast<const std::byte*>(src), rows.bytes,
                rows.count, rows.bytes);
    }
    return next();
  }
  Ticket copy_to_host(void* dst, ConstView src) override {
    const Rows rows = rows_of(src);
    if (src.num_elements() > 0) {
      copy_rows(static_cast<std::byte*>(dst), rows.bytes, src.data(), rows.stride_bytes, rows.count,
                rows.bytes);
    }
    return next();
  }
  Ticket copy(View dst, ConstView src) override {
    MEGA_CHECK_EQ(dst.bytes(), src.bytes());
    if (src.num_elements() == 0) return next();
    const Rows from = rows_of(src), to = rows_of(dst);
    const Rows& finer = from.count > to.count ? from : to;
    copy_rows(dst.data(), to.count == finer.count ? to.stride_bytes : finer.bytes, src.data(),
              from.count == finer.count ? from.stride_bytes : finer.bytes, finer.count,
              finer.bytes);
    return next();
  }
  Ticket fill_zero(View dst) override {
    const Rows rows = rows_of(dst);
    for (int64_t i = 0; i < rows.count && dst.num_elements() > 0; ++i) {
      std::memset(dst.data() + i * rows.stride_bytes, 0, static_cast<size_t>(rows.bytes));
    }
    return next();
  }
  void wait(Ticket ticket) override { MEGA_CHECK_LE(ticket.sequence, sequence_); }
  Ticket last() const override { return {sequence_}; }

 private:
  Ticket next() { return {++sequence_}; }
  ThreadPool pool_;
  uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const Target& target) {
  MEGA_CHECK(target.kind == DeviceKind::cpu);
  MEGA_CHECK(target.isa <= detect_isa(), "this machine has no {}", name_of(target.isa));
  return std::make_unique<CpuDevice>(target);
}
std::unique_ptr<Device> make_cpu_device(int num_threads, Isa isa) {
  return make_cpu_device(
      Target{.isa = isa, .num_threads = num_threads, .has_dot8 = cpu_has_dot8(isa)});
}
std::unique_ptr<Device> make_cpu_device(int num_threads) {
  return make_cpu_device(num_threads, detect_isa());
}

}  // namespace megalith::device

// SPDX-License-Identifier: Apache-2.0
#include "testing/queued_device.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "testing/hidden_memory.h"

namespace megalith::testing {
namespace {

using device::Ticket;

/// What a host buffer holds until the copy to it is done.
constexpr int kRubbish = 0xa5;

/// FNV-1a over words: enough to tell that a buffer has changed.
uint64_t digest_of(const void* data, int64_t bytes) {
  uint64_t digest = 0xcbf29ce484222325;
  const auto* at = static_cast<const unsigned char*>(data);
  for (int64_t i = 0; i < bytes; ++i) digest = (digest ^ at[i]) * 0x100000001b3;
  return digest;
}

bool is_rubbish(const void* data, int64_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  return std::all_of(at, at + bytes, [](unsigned char byte) { return byte == kRubbish; });
}

/// Calls body(offset of a row in the view, bytes of a row) for all rows that are contiguous.
template <typename AnyView, typename Body>
void for_rows(const AnyView& view, const Body& body) {
  if (view.num_elements() == 0) return;
  if (view.is_contiguous() || view.shape().num_dims() < 2) return body(0, view.bytes());
  const int64_t rows = view.size(0), bytes = view.bytes() / rows;
  for (int64_t row = 0; row < rows; ++row)
    body(row * view.row_stride() * bytes_of(view.dtype()), bytes);
}

class QueuedDevice final : public device::Device {
 public:
  QueuedDevice(const device::Target& target, const QueuedDeviceOptions& options)
      : Device(device::DeviceKind::queued, target), options_(options), pool_(target.num_threads) {
    set_pool(pool_);
    queue_kernels();
    for (int i = 0; i < device::kNumMemoryClasses; ++i) {
      const auto memory_class = static_cast<device::MemoryClass>(i);
      arenas_[static_cast<size_t>(i)] =
          std::make_unique<device::Arena>(memory_class,
                                          memory_class == device::MemoryClass::snapshot
                                              ? device::reserve_host_memory(int64_t{1} << 30)
                                              : reserve_hidden_memory(),
                                          &total_);
    }
    thread_ = std::thread([this] { run_queue(); });
  }

  ~QueuedDevice() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (failure_ == nullptr || is_told_ || std::uncaught_exceptions() > 0) return;
    try {
      std::rethrow_exception(failure_);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "nobody waited for what failed on a device: %s\n", error.what());
    }
    std::abort();
  }

  Ticket copy_to_device(View dst, const void* src) override {
    check_hidden(dst);
    return queue(options_.copy_delay, [dst, src, digest = digest_of(src, dst.bytes())] {
      MEGA_CHECK(digest_of(src, dst.bytes()) == digest,
                 "what is copied to {} changed before its ticket", dst.shape());
      const auto* from = static_cast<const std::byte*>(src);
      for_rows(dst, [&](int64_t offset, int64_t bytes) {
        std::memcpy(reachable(dst.data() + offset), from, static_cast<size_t>(bytes));
        from += bytes;
      });
    });
  }

  Ticket copy_to_host(void* dst, ConstView src) override {
    check_hidden(src);
    std::memset(dst, kRubbish, static_cast<size_t>(src.bytes()));
    return queue(options_.copy_delay, [dst, src] {
      MEGA_CHECK(is_rubbish(dst, src.bytes()), "what {} is copied to was written before its ticket",
                 src.shape());
      auto* to = static_cast<std::byte*>(dst);
      for_rows(src, [&](int64_t offset, int64_t bytes) {
        std::memcpy(to, reachable(src.data() + offset), static_cast<size_t>(bytes));
        to += bytes;
      });
    });
  }

  Ticket copy(View dst, ConstView src) override {
    check_hidden(dst);
    check_hidden(src);
    MEGA_CHECK_EQ(dst.bytes(), src.bytes());
    return queue(options_.work_delay, [dst, src] {
      std::vector<std::byte> packed;
      for_rows(src, [&](int64_t offset, int64_t bytes) {
        const std::byte* const from = reachable(src.data() + offset);
        packed.insert(packed.end(), from, from + bytes);
      });
      const std::byte* from = packed.data();
      for_rows(dst, [&](int64_t offset, int64_t bytes) {
        std::memcpy(reachable(dst.data() + offset), from, static_cast<size_t>(bytes));
        from += bytes;
      });
    });
  }

  Ticket fill_zero(View dst) override {
    check_hidden(dst);
    return queue(options_.work_delay, [dst] {
      for_rows(dst, [&](int64_t offset, int64_t bytes) {
        std::memset(reachable(dst.data() + offset), 0, static_cast<size_t>(bytes));
      });
    });
  }

  Ticket enqueue(std::unique_ptr<device::QueuedKernel> kernel) override {
    make_reachable(kernel->addresses());
    return queue(
        options_.work_delay,
        [kernel = std::shared_ptr<device::QueuedKernel>(std::move(kernel))] { kernel->run(); });
  }

  void wait(Ticket ticket) override {
    std::unique_lock lock(mutex_);
    MEGA_CHECK_LE(ticket.sequence, queued_);
    changed_.wait(lock, [&] { return done_ >= ticket.sequence; });
    if (failure_ == nullptr) return;
    is_told_ = true;
    std::rethrow_exception(failure_);
  }

  Ticket last() const override {
    const std::lock_guard lock(mutex_);
    return {queued_};
  }

 private:
  struct Work {
    std::chrono::microseconds delay;
    std::function<void()> run;
  };

  static void check_hidden(ConstView view) {
    MEGA_CHECK(view.num_elements() == 0 || is_hidden(view.data()),
               "{} {} is not memory of a queued device", view.shape(), view.dtype());
  }

  Ticket queue(std::chrono::microseconds delay, std::function<void()> run) {
    uint64_t sequence = 0;
    {
      const std::lock_guard lock(mutex_);
      work_.push_back({delay, std::move(run)});
      sequence = ++queued_;
    }
    changed_.notify_all();
    return {sequence};
  }

  void run_queue() {
    while (true) {
      Work work;
      bool runs = true;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
        if (work_.empty()) return;
        work = std::move(work_.front());
        work_.pop_front();
        runs = failure_ == nullptr;
      }
      if (work.delay.count() > 0) std::this_thread::sleep_for(work.delay);
      std::exception_ptr failure;
      try {
        if (runs) work.run();
      } catch (...) {
        failure = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        if (failure != nullptr) failure_ = failure;
        ++done_;
      }
      changed_.notify_all();
    }
  }

  QueuedDeviceOptions options_;
  ThreadPool pool_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::deque<Work> work_;
  uint64_t queued_ = 0, done_ = 0;
  bool ends_ = false, is_told_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<device::Device> make_queued_device(const device::Target& target,
                                                   const QueuedDeviceOptions& options) {
  MEGA_CHECK(target.kind == device::DeviceKind::cpu, "queued devices run the cpu's kernels");
  return std::make_unique<QueuedDevice>(target, options);
}

}  // namespace megalith::testing

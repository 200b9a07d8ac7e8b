// SPDX-License-Identifier: Apache-2.0
// One rank's device: its kind and target, its arenas, its threads, its one stream of work, copies
// to and from the host. Work and copies are queued: what a call promises is ready only after `wait`
// on a later ticket (on the cpu kind each is done when the call returns, but no caller may rely on
// it).
#pragma once

#include <array>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/thread_pool.h"
#include "device/arena.h"
#include "device/target.h"
#include "device/work.h"

namespace megalith::device {

class Recorder;

/// A point in a device's stream. Buffers given to queued work may be reused or read after wait().
struct Ticket {
  uint64_t sequence = 0;
};

/// A kernel of the host that runs later, on another thread.
class QueuedKernel {
 public:
  virtual ~QueuedKernel() = default;
  virtual void run() = 0;
  /// Where it keeps what it was given, views among it: a kind whose addresses are not those that
  /// its kernels follow translates them there.
  virtual std::span<std::byte> addresses() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  DeviceKind kind() const { return kind_; }
  /// What the kernels are made for; equal to the machine except under `trace`.
  const Target& target() const { return target_; }
  /// Whether the host may follow a view's pointer.
  bool is_host_memory() const { return kind_ == DeviceKind::cpu; }
  bool is_trace() const { return kind_ == DeviceKind::trace; }
  Arena& arena(MemoryClass memory_class) { return *arenas_[static_cast<size_t>(memory_class)]; }
  const Arena& arena(MemoryClass memory_class) const {
    return *arenas_[static_cast<size_t>(memory_class)];
  }
  const MemoryTotal& total() const { return total_; }

  /// The rank's threads, of kinds whose kernels run on the host.
  ThreadPool& pool() {
    MEGA_CHECK(pool_ != nullptr, "a device of kind {} has no threads", kind_);
    return *pool_;
  }

  /// Whether kernels of the host run behind the caller, on the device's stream; else they have run
  /// when the call returns.
  bool queues_kernels() const { return queues_kernels_; }
  /// Only where they do.
  virtual Ticket enqueue(std::unique_ptr<QueuedKernel> kernel);

  /// Queues a copy of `bytes` bytes; source and destination must stay untouched until the ticket.
  virtual Ticket copy_to_device(View dst, const void* src) = 0;
  virtual Ticket copy_to_host(void* dst, ConstView src) = 0;
  virtual Ticket copy(View dst, ConstView src) = 0;
  virtual Ticket fill_zero(View dst) = 0;
  /// Returns when everything queued up to the ticket is done.
  virtual void wait(Ticket ticket) = 0;
  /// The end of what is queued now.
  virtual Ticket last() const = 0;

  /// Records work when traced or profiled; null otherwise.
  Recorder* recorder() const { return recorder_; }
  void set_recorder(Recorder* recorder) { recorder_ = recorder; }

 protected:
  Device(DeviceKind kind, const Target& target) : kind_(kind), target_(target) {}
  void set_pool(ThreadPool& pool) { pool_ = &pool; }
  void queue_kernels() { queues_kernels_ = true; }
  std::array<std::unique_ptr<Arena>, kNumMemoryClasses> arenas_;
  MemoryTotal total_;

 private:
  DeviceKind kind_;
  Target target_;
  ThreadPool* pool_ = nullptr;
  bool queues_kernels_ = false;
  Recorder* recorder_ = nullptr;
};

/// The device of a target: where a program's choice of kind becomes one. UserError for a kind that
/// this build does not have.
std::unique_ptr<Device> make_device(const Target& target);
/// A CPU device with `num_threads` threads (the caller is one of them). `isa` may be lower than the
/// machine's, to prove that bits do not depend on it.
std::unique_ptr<Device> make_cpu_device(int num_threads, Isa isa);
std::unique_ptr<Device> make_cpu_device(int num_threads);
std::unique_ptr<Device> make_cpu_device(const Target& target);
/// A device that only counts, for `target`.
std::unique_ptr<Device> make_trace_device(const Target& target);

/// Records one kernel; free when there is no recorder. Every kernel opens one. Its time is the
/// host's where kernels run on the caller's thread; behind a stream it is none (a kind that can
/// measure there adds it).
class KernelScope {
 public:
  KernelScope(Device& device, std::string_view name, const Work& work);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  Recorder* recorder_;
  std::string_view name_;
  Work work_;
  double begin_ = 0;
};

/// Names a part of the model ("layers.3.mlp") in the records made inside it.
class NameScope {
 public:
  NameScope(Device& device, std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  Recorder* recorder_;
};

}  // namespace megalith::device

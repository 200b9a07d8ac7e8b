// SPDX-License-Identifier: Apache-2.0
// One rank's device: its kind and target, its arenas, its threads, its one stream of work, copies
// to and from the host. Work and copies are queued: what a call promises is ready only after `wait`
// on a later ticket (on the cpu kind each is done when the call returns, but no caller may rely on
// it).
#pragma once

#include <array>
#include <memory>

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

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  DeviceKind kind() const { return kind_; }
  /// What the kernels are made for; equal to the machine except under `trace`.
  const Target& target() const { return target_; }
  bool is_trace() const { return kind_ == DeviceKind::trace; }
  Arena& arena(MemoryClass memory_class) { return *arenas_[static_cast<size_t>(memory_class)]; }
  const Arena& arena(MemoryClass memory_class) const {
    return *arenas_[static_cast<size_t>(memory_class)];
  }
  const MemoryTotal& total() const { return total_; }

  /// The rank's threads (cpu kind only).
  virtual ThreadPool& pool() = 0;

  /// Queues a copy of `bytes` bytes; source and destination must stay untouched until the ticket.
  virtual Ticket copy_to_device(View dst, const void* src) = 0;
  virtual Ticket copy_to_host(void* dst, ConstView src) = 0;
  virtual Ticket copy(View dst, ConstView src) = 0;
  virtual Ticket fill_zero(View dst) = 0;
  /// Returns when everything queued up to the ticket is done.
  virtual void wait(Ticket ticket) = 0;

  /// Records work when traced or profiled; null otherwise.
  Recorder* recorder() const { return recorder_; }
  void set_recorder(Recorder* recorder) { recorder_ = recorder; }

 protected:
  Device(DeviceKind kind, const Target& target) : kind_(kind), target_(target) {}
  std::array<std::unique_ptr<Arena>, kNumMemoryClasses> arenas_;
  MemoryTotal total_;

 private:
  DeviceKind kind_;
  Target target_;
  Recorder* recorder_ = nullptr;
};

/// A CPU device with `num_threads` threads (the caller is one of them). `isa` may be lower than the
/// machine's, to prove that bits do not depend on it.
std::unique_ptr<Device> make_cpu_device(int num_threads, Isa isa);
std::unique_ptr<Device> make_cpu_device(int num_threads);
std::unique_ptr<Device> make_cpu_device(const Target& target);
/// A device that only counts, for `target`.
std::unique_ptr<Device> make_trace_device(const Target& target);

/// Times one kernel for the recorder; free when there is none. Every kernel opens one.
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

// SPDX-License-Identifier: Apache-2.0
// Memory of one device, by class. An arena hands out ranges of one address space, first fit, and
// knows its exact high-water mark. The rule is a pure function of the sequence of calls, and the
// `trace` kind uses the same one over an address space without memory: a traced run's marks *are*
// the allocation of the real run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "tensor/view.h"

namespace megalith::device {

/// What memory is for. `activations` is what forward keeps for backward (and the KV cache);
/// `workspace` is everything that lives shorter than one layer's pass, and batches; `snapshot` the
/// copy of the state that a background save writes from: memory of the host under every kind that
/// has some.
enum class MemoryClass : uint8_t {
  weights,
  gradients,
  optimizer,
  activations,
  workspace,
  snapshot
};
inline constexpr int kNumMemoryClasses = 6;
std::string_view name_of(MemoryClass memory_class);
inline std::string_view format_as(MemoryClass memory_class) { return name_of(memory_class); }

/// Every range starts at a multiple of this, and its size is rounded up to one.
inline constexpr int64_t kAlignment = 64;

/// Bytes in use over all arenas of one device, and the peak of that sum.
struct MemoryTotal {
  int64_t in_use = 0;
  int64_t peak = 0;
};

class Arena;

/// A range of an arena, given back by the destructor. Moves; does not copy.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation() { release(); }

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  void release();

 private:
  friend class Arena;
  Allocation(Arena* arena, std::byte* data, int64_t offset, int64_t bytes)
      : arena_(arena), data_(data), offset_(offset), bytes_(bytes) {}
  Arena* arena_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;  // rounded up
};

/// An allocation together with the view of it.
struct Tensor {
  Allocation allocation;
  View view;
  operator View() const { return view; }       // NOLINT(google-explicit-constructor)
  operator ConstView() const { return view; }  // NOLINT(google-explicit-constructor)
};

/// The address space under an arena: real memory, or addresses that nobody may follow.
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  virtual std::byte* base() const = 0;
  virtual int64_t capacity() const = 0;
};

/// Pages reserved now and given by the system at first touch (so that reserving much costs
/// nothing); large pages where the system allows.
std::unique_ptr<AddressSpace> reserve_host_memory(int64_t bytes);
/// Addresses without memory, for the trace kind. Distinct per `index`.
std::unique_ptr<AddressSpace> reserve_nothing(int index);

/// Hears of every range that an arena hands out or is given back, in order: what a plan records to
/// do it again elsewhere. Empty ranges are left out.
class ArenaObserver {
 public:
  virtual ~ArenaObserver() = default;
  virtual void allocated(MemoryClass memory_class, int64_t offset, int64_t bytes) = 0;
  virtual void freed(MemoryClass memory_class, int64_t offset) = 0;
};

/// Used by the owning rank's thread only.
class Arena {
 public:
  Arena(MemoryClass memory_class, std::unique_ptr<AddressSpace> space, MemoryTotal* total);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A range of at least `bytes` bytes (uninitialised). SystemError naming class and bytes when the
  /// space is used up.
  Allocation allocate(int64_t bytes);
  Tensor tensor(DType dtype, const Shape& shape);

  MemoryClass memory_class() const { return class_; }
  int64_t in_use() const { return in_use_; }
  /// Highest end of any range ever handed out: the bytes of address space this arena needs.
  int64_t high_water() const { return high_water_; }
  /// What decides where the next ranges go: the free ranges (offset -> bytes) below the end of the
  /// last one in use, and that end.
  const std::map<int64_t, int64_t>& holes() const { return holes_; }
  int64_t end() const { return end_; }

  /// Null: nobody hears.
  void set_observer(ArenaObserver* observer) { observer_ = observer; }

 private:
  friend class Allocation;
  void free(int64_t offset, int64_t bytes);
  MemoryClass class_;
  std::unique_ptr<AddressSpace> space_;
  MemoryTotal* total_;
  ArenaObserver* observer_ = nullptr;
  std::map<int64_t, int64_t> holes_;  // offset -> bytes, below end_, never adjacent
  int64_t end_ = 0;
  int64_t in_use_ = 0;
  int64_t high_water_ = 0;
};

}  // namespace megalith::device

// SPDX-License-Identifier: Apache-2.0
#include "testing/hidden_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/check.h"

namespace megalith::testing {
namespace {

/// Of one arena. Pages are given at first touch.
constexpr int64_t kPartBytes = int64_t{256} << 20;
constexpr int64_t kParts = 512;
constexpr int64_t kBytes = kPartBytes * kParts;

// What looks like an address in the arguments of a kernel is made reachable, and padding beside a
// number can hold a part of an old address. So that no number is taken for a part of one:
// - the two addresses of a byte differ by a multiple of 4 GiB: the low half of a word, a number
//   with padding behind it, stays as it is;
// - byte 4 of an address is 0x80 or more: small numbers there (an enumerator behind a float) are
//   no part of one.
constexpr uintptr_t kFirstPlace = 0x5a80'00000000, kSecondPlace = 0x4a80'00000000;

std::byte* map(int file, int protection, uintptr_t place) {
  void* const base = mmap(reinterpret_cast<void*>(place), static_cast<size_t>(kBytes), protection,
                          MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
  if (base == MAP_FAILED)
    throw SystemError("cannot map {} bytes twice: {}", kBytes, std::strerror(errno));
  return static_cast<std::byte*>(base);
}

/// One per process, so that devices of several ranks can copy from each other.
class HiddenMemory {
 public:
  static HiddenMemory& get() {
    static HiddenMemory memory;
    return memory;
  }

  bool holds(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    return at >= hidden_ && at < hidden_ + kBytes;
  }
  std::byte* reachable(const void* address) const {
    return reachable_ + (static_cast<const std::byte*>(address) - hidden_);
  }

  std::byte* take() {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < is_taken_.size(); ++i) {
      if (is_taken_[i]) continue;
      is_taken_[i] = true;
      return hidden_ + static_cast<int64_t>(i) * kPartBytes;
    }
    throw SystemError("more than {} arenas of queued devices at once", kParts);
  }
  void give_back(std::byte* part) {
    const std::lock_guard lock(mutex_);
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, part - hidden_, kPartBytes);
    is_taken_[static_cast<size_t>((part - hidden_) / kPartBytes)] = false;
  }

 private:
  HiddenMemory() : file_(memfd_create("hidden device memory", MFD_CLOEXEC)), is_taken_(kParts) {
    if (file_ < 0 || ftruncate(file_, kBytes) != 0)
      throw SystemError("cannot make {} bytes of memory: {}", kBytes, std::strerror(errno));
    hidden_ = map(file_, PROT_NONE, kFirstPlace);
    reachable_ = map(file_, PROT_READ | PROT_WRITE, kSecondPlace);
  }

  int file_;
  std::byte* hidden_ = nullptr;
  std::byte* reachable_ = nullptr;
  std::mutex mutex_;
  std::vector<bool> is_taken_;
};

class HiddenPart final : public device::AddressSpace {
 public:
  HiddenPart() : base_(HiddenMemory::get().take()) {}
  ~HiddenPart() override { HiddenMemory::get().give_back(base_); }
  std::byte* base() const override { return base_; }
  int64_t capacity() const override { return kPartBytes; }

 private:
  std::byte* base_;
};

}  // namespace

std::unique_ptr<device::AddressSpace> reserve_hidden_memory() {
  return std::make_unique<HiddenPart>();
}

bool is_hidden(const void* address) { return HiddenMemory::get().holds(address); }
std::byte* reachable(const void* hidden) { return HiddenMemory::get().reachable(hidden); }

void make_reachable(std::span<std::byte> words) {
  MEGA_CHECK(reinterpret_cast<uintptr_t>(words.data()) % sizeof(void*) == 0);
  for (size_t at = 0; at + sizeof(void*) <= words.size(); at += sizeof(void*)) {
    void* word = nullptr;
    std::memcpy(&word, words.data() + at, sizeof(word));
    if (!is_hidden(word)) continue;
    word = reachable(word);
    std::memcpy(words.data() + at, &word, sizeof(word));
  }
}

}  // namespace megalith::testing

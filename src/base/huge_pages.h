// SPDX-License-Identifier: Apache-2.0
// Memory on pages of 2 MiB: random reads of a table walk the page tables less often, and a buffer
// reaches the disk in fewer pieces. Linux gives such pages on request
// (transparent_hugepage/enabled: madvise); a refusal costs only speed.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace megalith {

inline constexpr size_t kHugePage = size_t{2} << 20;

/// `bytes` of memory, aligned to a huge page, or to a cache line if they do not fill one; null when
/// there is no memory. Not zeroed. Release with std::free.
void* allocate_on_huge_pages(size_t bytes);

/// An allocator for std::vector. T may be aligned to a cache line at most.
template <class T>
struct HugePages {
  using value_type = T;
  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}
  T* allocate(size_t n) {
    void* memory = allocate_on_huge_pages(n * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  bool operator==(const HugePages&) const = default;
};

}  // namespace megalith

// SPDX-License-Identifier: Apache-2.0
// Memory on pages of 2 MiB: a table that is read here and there costs fewer walks of the page
// tables, a buffer that is written to disk goes there in few pieces. Linux gives such pages to who
// asks (transparent_hugepage/enabled: madvise); a refusal costs only speed.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace megalith {

inline constexpr size_t kHugePage = size_t{2} << 20;

/// `bytes` from a huge page on, or from a cache line on when they fill none; null when there is no
/// memory. Not zeroed. To be given back by std::free.
void* allocate_on_huge_pages(size_t bytes);

/// For std::vector. T is aligned to a cache line at most.
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

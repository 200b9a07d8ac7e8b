// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdlib>

namespace megalith {

void* allocate_on_huge_pages(size_t bytes) {
  constexpr size_t kCacheLine = 64;
  const size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded < bytes) return nullptr;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory != nullptr && bytes >= kHugePage) ::madvise(memory, rounded, MADV_HUGEPAGE);  // a wish
  return memory;
}

}  // namespace megalith

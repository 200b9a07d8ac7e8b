// SPDX-License-Identifier: Apache-2.0
// Memory outside of the arenas: when the system has none left, the message says how much was asked.
// The C++ library's own new says only std::bad_alloc. The other forms of new call this one.
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::size_t bytes) noexcept {
    std::snprintf(text_, sizeof text_,
                  "out of memory outside of the arenas: %zu bytes asked; close other programs, or "
                  "use a smaller model or batch",
                  bytes);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[160];
};

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw OutOfMemory(bytes);
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

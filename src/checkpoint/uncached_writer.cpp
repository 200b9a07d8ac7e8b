// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/uncached_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/huge_pages.h"
#include "base/interrupted.h"

namespace megalith::checkpoint {
namespace {

/// Memory, position and size of a direct write are multiples of this: the largest logical block in
/// use. A device that wants more says EINVAL, and gets plain writes.
constexpr size_t kBlock = 4096;
static_assert(kUncachedBufferBytes % kBlock == 0);

/// The kernel hands a direct write to the disk page by page; huge pages make a few large pieces of
/// it (measured 1.4 times as fast).
static_assert(kUncachedBufferBytes % kHugePage == 0);

bool set_direct(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace

void UncachedWriter::Free::operator()(std::byte* memory) const { std::free(memory); }

UncachedWriter::UncachedWriter(File& file)
    : file_(file), buffer_(static_cast<std::byte*>(allocate_on_huge_pages(kUncachedBufferBytes))) {
  if (buffer_ == nullptr) throw SystemError("{}: no memory to write it", file.path().string());
  direct_ = set_direct(file.fd(), true);
}

UncachedWriter::~UncachedWriter() = default;

void UncachedWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kUncachedBufferBytes - used_);
    std::memcpy(buffer_.get() + used_, bytes.data(), part);
    used_ += part;
    bytes = bytes.subspan(part);
    if (used_ == kUncachedBufferBytes) flush();
  }
}

void UncachedWriter::finish() {
  if (used_ % kBlock != 0) stop_direct();  // the file ends inside a block
  flush();
  stop_direct();
}

void UncachedWriter::flush() {
  write_out(buffer_.get(), used_);
  used_ = 0;
}

void UncachedWriter::stop_direct() {
  if (direct_ && !set_direct(file_.fd(), false))
    throw SystemError("{} (fcntl): {}", file_.path().string(), std::strerror(errno));
  direct_ = false;
}

// Not File::write: what is refused here only for being direct is repeated plainly.
void UncachedWriter::write_out(const std::byte* data, size_t size) {
  while (size > 0) {
    const ssize_t n = retry([&] { return ::write(file_.fd(), data, size); });
    if (n < 0 && errno == EINVAL && direct_) {
      stop_direct();
      continue;
    }
    if (n < 0) fail_write("write", file_.path(), errno, size);
    // A failure of this wish is one that fsync reports.
    if (!direct_) ::sync_file_range(file_.fd(), written_, n, SYNC_FILE_RANGE_WRITE);
    data += n;
    size -= static_cast<size_t>(n);
    written_ += n;
    if (written_ % static_cast<int64_t>(kBlock) != 0 && direct_) stop_direct();
  }
}

}  // namespace megalith::checkpoint

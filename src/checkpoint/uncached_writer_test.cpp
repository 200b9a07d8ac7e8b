// SPDX-License-Identifier: Apache-2.0
// What was written is in the file, byte for byte, whatever the sizes of parts and file, on a disk
// (around the page cache) and in memory (where nothing can be); and the page cache holds at most
// the end of it.
#include "checkpoint/uncached_writer.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "checkpoint/checkpoint_fixture.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;

class UncachedWriterTest : public CheckpointTest {
 protected:
  static std::string content(size_t size) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + (i >> 12));
    return text;
  }
  static void write(const fs::path& path, const std::string& text, size_t part) {
    File file(path, File::Mode::create_or_truncate);
    UncachedWriter writer(file);
    for (size_t at = 0; at < text.size(); at += part)
      writer.write(std::as_bytes(std::span(text).subspan(at, std::min(part, text.size() - at))));
    writer.finish();
    EXPECT_EQ(::fcntl(file.fd(), F_GETFL) & O_DIRECT, 0) << "others may write on";
    file.sync();
    file.close();
  }
};

TEST_F(UncachedWriterTest, every_byte_arrives) {
  std::vector<fs::path> folders{folder_};
  if (fs::is_directory("/dev/shm")) folders.emplace_back("/dev/shm");
  constexpr size_t kBuffer = kUncachedBufferBytes;
  for (const fs::path& folder : folders) {
    const fs::path path = folder / fmt::format("megalith-uncached-{}", getpid());
    for (const size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097},
                              kBuffer - 1, kBuffer, kBuffer + 1, 2 * kBuffer + 12'345}) {
      const std::string text = content(size);
      for (const size_t part : {size_t{100'003}, kBuffer, 3 * kBuffer}) {
        write(path, text, part);
        EXPECT_TRUE(read_file(path) == text) << path << " of " << size << " in parts of " << part;
      }
    }
    fs::remove(path);
  }
}

TEST_F(UncachedWriterTest, the_page_cache_is_left_alone) {
  const fs::path path = folder_ / "file";
  {  // where the file system writes directly at all
    const File file(path, File::Mode::create_or_truncate);
    if (::fcntl(file.fd(), F_SETFL, O_DIRECT) != 0) GTEST_SKIP() << "no O_DIRECT here";
    struct statfs system {};
    ASSERT_EQ(::fstatfs(file.fd(), &system), 0);
    if (system.f_type == TMPFS_MAGIC) GTEST_SKIP() << "the page cache is the disk here";
  }
  write(path, content(2 * kUncachedBufferBytes + 12'345), 1'000'000);
  const File file(path, File::Mode::read);
  const auto size = static_cast<size_t>(file.size());
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
  ASSERT_NE(address, MAP_FAILED);
  std::vector<unsigned char> resident((size + 4095) / 4096);
  EXPECT_EQ(::mincore(address, size, resident.data()), 0);
  ::munmap(address, size);
  const auto cached = std::ranges::count_if(resident, [](unsigned char r) { return (r & 1) != 0; });
  EXPECT_LE(cached, 8);
}

TEST_F(UncachedWriterTest, a_full_disk_is_named) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  File file("/dev/full", File::Mode::append);
  UncachedWriter writer(file);
  writer.write(std::as_bytes(std::span("abc", 3)));
  try {
    writer.finish();
    FAIL() << "no error";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/dev/full (write): No space left"));
  }
}

}  // namespace
}  // namespace megalith::checkpoint

// SPDX-License-Identifier: Apache-2.0
#include "data/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "data/test_compress.h"
#include "data/test_corpus.h"

namespace megalith::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string read_all(const std::filesystem::path& path, size_t block) {
  const auto source = open_source(path);
  std::string all;
  std::string buffer(block, '\0');
  while (const size_t count = source->read(buffer.data(), block)) all.append(buffer, 0, count);
  return all;
}

/// Text that compresses, with stretches that do not.
std::string mixed_text(size_t bytes) {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < bytes) {
    text += "a line that comes again and again\n";
    if (random() % 4 == 0) {
      for (int i = 0; i < 100; ++i) text += static_cast<char>('!' + random() % 90);
    }
  }
  text.resize(bytes);
  return text;
}

TEST(ByteSource, PlainGzipAndZstdGiveTheSameBytesInAnyBlockSize) {
  const TemporaryFolder folder;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{3}, size_t{4}, size_t{1000000}}) {
    const std::string text = mixed_text(bytes);
    write_text(folder / "t.txt", text);
    write_text(folder / "t.txt.gz", gzip(text));
    write_text(folder / "t.txt.zst", zstd(text));
    for (const size_t block : {size_t{7}, size_t{4096}, size_t{1} << 20}) {
      if (block == 7 && bytes > 1000) continue;
      EXPECT_EQ(read_all(folder / "t.txt", block), text);
      EXPECT_EQ(read_all(folder / "t.txt.gz", block), text);
      EXPECT_EQ(read_all(folder / "t.txt.zst", block), text);
    }
  }
}

TEST(ByteSource, ConcatenatedMembersAndFramesAreOneStream) {
  const TemporaryFolder folder;
  const std::string text = mixed_text(100000);
  for (const size_t block : {size_t{1}, size_t{100000}, size_t{300000}}) {
    write_text(folder / "t.gz", gzip(text) + gzip("") + gzip("end"));
    EXPECT_EQ(read_all(folder / "t.gz", block), text + "end");
    write_text(folder / "t.zst", zstd(text) + zstd("") + zstd("end"));
    EXPECT_EQ(read_all(folder / "t.zst", block), text + "end");
  }
}

/// A zstd frame to skip, of the kind `low` (0 to 15).
std::string skipped(std::string_view content, char low = 0) {
  const auto size = static_cast<uint32_t>(content.size());
  std::string frame{static_cast<char>(0x50 + low), '\x2a', '\x4d', '\x18'};
  frame.append(reinterpret_cast<const char*>(&size), sizeof size);
  return frame.append(content);
}

TEST(ByteSource, FramesToSkipAreSkippedWhereverTheyStand) {
  const TemporaryFolder folder;
  const std::string text = mixed_text(100000), many = mixed_text(600000);
  for (const size_t block : {size_t{1}, size_t{300000}}) {
    // As pzstd writes it: the size of the next frame before each.
    write_text(folder / "t.zst", skipped("size") + zstd(text) + skipped("size", 15) + zstd("end"));
    EXPECT_EQ(read_all(folder / "t.zst", block), text + "end");
    write_text(folder / "t.zst", zstd(text) + skipped(many) + skipped(""));
    EXPECT_EQ(read_all(folder / "t.zst", block), text);
    write_text(folder / "t.zst", skipped(many, 7));
    EXPECT_EQ(read_all(folder / "t.zst", block), "");
  }
  write_text(folder / "t.zst", zstd(text) + skipped(many).substr(0, 300000));
  EXPECT_THAT(error_of([&] { read_all(folder / "t.zst", 500); }), HasSubstr("cut short"));
  // Under another name it is the text that it could be.
  write_text(folder / "t.txt", skipped("abcd"));
  EXPECT_EQ(read_all(folder / "t.txt", 500), skipped("abcd"));
  write_text(folder / "t.zst", "`*M\x18 is none");
  EXPECT_THAT(error_of([&] { open_source(folder / "t.zst"); }), HasSubstr("not compressed"));
}

TEST(ByteSource, CompressionIsToldByTheBytesNotTheName) {
  const TemporaryFolder folder;
  write_text(folder / "t.txt", gzip("hidden"));
  EXPECT_EQ(read_all(folder / "t.txt", 100), "hidden");
  for (const char* name : {"t.gz", "t.zst"}) {
    write_text(folder / name, "plain");
    EXPECT_THAT(error_of([&] { open_source(folder / name); }),
                AllOf(StartsWith("2: "), HasSubstr(name), HasSubstr("not compressed")));
    write_text(folder / name, "");
    EXPECT_THAT(error_of([&] { open_source(folder / name); }), StartsWith("2: "));
  }
}

TEST(ByteSource, EveryTruncationIsAnErrorThatNamesTheFile) {
  const TemporaryFolder folder;
  const std::string text = mixed_text(700);
  for (const auto& [name, whole] :
       {std::pair{"t.gz", gzip(text)}, std::pair{"t.zst", zstd(text)}}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      write_text(folder / name, whole.substr(0, size));
      EXPECT_THAT(error_of([&, &name = name] { read_all(folder / name, 500); }),
                  AllOf(StartsWith("2: "), HasSubstr(name)))
          << size << " of " << whole.size();
    }
  }
}

TEST(ByteSource, NoFlippedByteOfTheBodyGivesOtherText) {
  const TemporaryFolder folder;
  const std::string text = mixed_text(700);
  for (const auto& [name, whole] :
       {std::pair{"t.gz", gzip(text)}, std::pair{"t.zst", zstd(text)}}) {
    size_t harmless = 0;                          // a padding bit, say
    for (size_t i = 10; i < whole.size(); ++i) {  // gzip's head has bytes without meaning
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
      write_text(folder / name, damaged);
      std::string found;
      const std::string error =
          error_of([&, &name = name] { found = read_all(folder / name, 500); });
      if (error == "no error") {
        ++harmless;
        EXPECT_EQ(found, text) << name << " " << i;
      } else {
        EXPECT_THAT(error, StartsWith("2: ")) << name << " " << i;
      }
    }
    EXPECT_LE(harmless, 2u) << name;
  }
}

TEST(ByteSource, BytesBehindACompressedStreamAreAnError) {
  const TemporaryFolder folder;
  write_text(folder / "t.gz", gzip("text") + "tail");
  write_text(folder / "t.zst", zstd("text") + "tail");
  for (const char* name : {"t.gz", "t.zst"}) {
    EXPECT_THAT(error_of([&, &name = name] { read_all(folder / name, 500); }),
                AllOf(StartsWith("2: "), HasSubstr(name)));
  }
}

TEST(ByteSource, StandardInputIsReadAndUnpacked) {
  const TemporaryFolder folder;
  const std::string text = mixed_text(100000);
  write_text(folder / "t", gzip(text));
  const int kept = ::dup(STDIN_FILENO);
  const File file(folder / "t", File::Mode::read);
  ASSERT_EQ(::dup2(file.fd(), STDIN_FILENO), STDIN_FILENO);
  EXPECT_EQ(read_all("-", 4096), text);
  if (kept >= 0) {
    ::dup2(kept, STDIN_FILENO);
    ::close(kept);
  } else {
    ::close(STDIN_FILENO);
  }
}

TEST(ByteSource, MissingFilesAndFoldersAreNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { check_source(folder / "absent"); }),
              AllOf(StartsWith("2: "), HasSubstr("absent")));
  EXPECT_THAT(error_of([&] { check_source(folder.path()); }),
              AllOf(StartsWith("2: "), HasSubstr("folder")));
}

}  // namespace
}  // namespace megalith::data

// SPDX-License-Identifier: Apache-2.0
#include "base/line_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace megalith {
namespace {

class LineReaderTest : public ::testing::Test {
 protected:
  LineReaderTest() : path_(::testing::TempDir() + "megalith-lines-" + std::to_string(getpid())) {}
  ~LineReaderTest() override { std::filesystem::remove(path_); }
  struct Read {
    std::vector<std::string> lines;
    std::string rest;
    bool too_long;
  };
  Read read(const std::string& content, int64_t most) const {
    write_file_durable(path_, content);
    LineReader reader(path_, most);
    Read read;
    for (std::string_view line; reader.next(line);) {
      read.lines.emplace_back(line);
      EXPECT_EQ(reader.number(), static_cast<int64_t>(read.lines.size()));
    }
    read.too_long = reader.is_too_long();
    if (!read.too_long) read.rest = reader.rest();
    return read;
  }
  std::filesystem::path path_;
};

TEST_F(LineReaderTest, LinesOfAnyLengthOverAnyNumberOfBlocks) {
  for (const size_t length : {0u, 1u, 65535u, 65536u, 65537u, 200'000u}) {
    const std::string line(length, 'x');
    for (const char* rest : {"", "torn"}) {
      const Read all = read(line + "\n" + line + "\n\n" + rest, 200'000);
      EXPECT_EQ(all.lines, (std::vector<std::string>{line, line, ""})) << length;
      EXPECT_EQ(all.rest, rest) << length;
      EXPECT_FALSE(all.too_long) << length;
    }
  }
  EXPECT_TRUE(read("", 10).lines.empty());
}

TEST_F(LineReaderTest, NoLineIsLongerThanAllowed) {
  EXPECT_EQ(read("1234567890\n", 10).lines.size(), 1u);
  const Read all = read("a\n12345678901\nb\n", 10);
  EXPECT_EQ(all.lines, std::vector<std::string>{"a"});
  EXPECT_TRUE(all.too_long);
  EXPECT_TRUE(read(std::string(1 << 20, '\0'), 100'000).too_long);  // without an end, too
}

}  // namespace
}  // namespace megalith

// SPDX-License-Identifier: Apache-2.0
#include "data/document_chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "data/test_corpus.h"

namespace megalith::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class StringSource final : public ByteSource {
 public:
  explicit StringSource(std::string text, size_t most = SIZE_MAX)
      : text_(std::move(text)), most_(most) {}
  size_t read(char* data, size_t size) override {
    const size_t count = std::min({size, most_, text_.size() - given_});
    std::memcpy(data, text_.data() + given_, count);
    given_ += count;
    return count;
  }

 private:
  std::string text_;
  size_t most_;
  size_t given_ = 0;
};

std::vector<std::string> documents(const std::string& text, Cut cut,
                                   const std::string& field = "text",
                                   int64_t most = kMaxDocumentBytes) {
  ChunkReader reader(std::make_unique<StringSource>(text, 1000), "in", cut, most);
  DocumentParser parser(field);
  std::vector<std::string> found;
  Chunk chunk;
  while (reader.next(chunk)) {
    parser.for_each(chunk, [&](std::string_view document) { found.emplace_back(document); });
  }
  return found;
}

TEST(DocumentChunks, FileIsOneDocumentWithNothingStripped) {
  EXPECT_THAT(documents("a\r\n\n b \n", Cut::file), ElementsAre("a\r\n\n b \n"));
  EXPECT_THAT(documents("", Cut::file), IsEmpty());
}

TEST(DocumentChunks, LinesLoseTheirEndAndEmptyOnesAreNone) {
  EXPECT_THAT(documents("a\n\n b \r\n\r\nc", Cut::line), ElementsAre("a", " b ", "c"));
  EXPECT_THAT(documents("\n\n", Cut::line), IsEmpty());
}

TEST(DocumentChunks, ParagraphsAreWhatBlankLinesPart) {
  EXPECT_THAT(documents("\n\na\nb\n\n \t\n  c\r\n\r\nd\n", Cut::paragraph),
              ElementsAre("a\nb", "  c", "d"));
  EXPECT_THAT(documents("a\n\nb", Cut::paragraph), ElementsAre("a", "b"));
  EXPECT_THAT(documents(" \n\n", Cut::paragraph), IsEmpty());
}

TEST(DocumentChunks, JsonLinesGiveTheirField) {
  EXPECT_THAT(documents("{\"text\": \"a\\n\\u00e4\\ud83d\\ude00\", \"x\": [1, {}]}\r\n \n"
                        "{\"x\": 1, \"text\": \"\"}",
                        Cut::json),
              ElementsAre("a\nä😀", ""));
  EXPECT_THAT(documents("{\"body\": \"b\", \"text\": \"t\"}\n", Cut::json, "body"),
              ElementsAre("b"));
}

TEST(DocumentChunks, AByteOrderMarkBeginsAFileOfJsonLinesAndNoOtherLine) {
  const std::string line = "{\"text\": \"a\"}\n", mark = "\xef\xbb\xbf";
  EXPECT_THAT(documents(mark + line + line, Cut::json), ElementsAre("a", "a"));
  EXPECT_THAT(documents(mark + "\r\n" + line, Cut::json), ElementsAre("a"));
  EXPECT_THAT(documents(mark, Cut::json), IsEmpty());
  EXPECT_THAT(error_of([&] { documents(line + mark + line, Cut::json); }),
              StartsWith("2: in:2: not JSON"));
  EXPECT_THAT(documents(mark + "a\n", Cut::line), ElementsAre(mark + "a"));
}

// Chunks end every half megabyte; documents of all sizes around that must come through whole.
TEST(DocumentChunks, ChunkBoundariesAreNeverSeen) {
  std::mt19937 random(5);
  std::vector<std::string> expected;
  std::string lines;
  std::string paragraphs;
  std::string json;
  for (int i = 0; i < 60; ++i) {
    const size_t sizes[] = {1, 7, 500, 30000, 524287, 524288, 524289, 1200000};
    std::string text = "ä" + std::string(sizes[random() % (i % 10 == 0 ? 8 : 4)], 'x');
    lines += text + "\n";
    paragraphs += text + (random() % 2 != 0 ? "\n\n" : "\n \n\t\n");
    json += "{\"text\":\"" + text + "\"}\n";
    expected.push_back(std::move(text));
  }
  EXPECT_TRUE(documents(lines, Cut::line) == expected);
  EXPECT_TRUE(documents(paragraphs, Cut::paragraph) == expected);
  EXPECT_TRUE(documents(json, Cut::json) == expected);
}

TEST(DocumentChunks, ManySmallLinesGiveChunksOfBoundedSize) {
  std::string text;
  for (int i = 0; i < 300000; ++i) text += "line\n";
  ChunkReader reader(std::make_unique<StringSource>(text), "in", Cut::line);
  Chunk chunk;
  int64_t line = 1;
  int chunks = 0;
  while (reader.next(chunk)) {
    EXPECT_EQ(chunk.first_line, line);
    EXPECT_LE(chunk.size(), (512 << 10) + 5);
    line += chunk.size() / 5;
    ++chunks;
  }
  EXPECT_EQ(line, 300001);
  EXPECT_EQ(chunks, 3);
}

TEST(DocumentChunks, FaultsAreNamedByFileAndLine) {
  const std::string good = "{\"text\": \"a\"}\n";
  const auto fault = [&](const std::string& bad) {
    return error_of([&] { documents(good + good + bad + "\n" + good, Cut::json); });
  };
  EXPECT_THAT(fault("{\"text\": "), AllOf(StartsWith("2: in:3: "), HasSubstr("not JSON")));
  EXPECT_THAT(fault("{\"text\": \"a\"} x"), StartsWith("2: in:3: not JSON"));
  EXPECT_THAT(fault("{\"text\": \"\\ud800\"}"), StartsWith("2: in:3: not JSON"));
  EXPECT_THAT(fault("[\"a\"]"), StartsWith("2: in:3: not a JSON object"));
  EXPECT_THAT(fault("\"a\""), StartsWith("2: in:3: not a JSON object"));
  EXPECT_THAT(fault("{\"txt\": \"a\"}"), StartsWith("2: in:3: no field \"text\""));
  EXPECT_THAT(fault("{\"text\": 1}"), StartsWith("2: in:3: field \"text\" is not a string"));
  EXPECT_THAT(fault("{\"text\": null}"), StartsWith("2: in:3: field \"text\" is not a string"));
  EXPECT_THAT(fault("{\"text\": \"\xff\"}"), StartsWith("2: in:3: invalid UTF-8 (byte 0xff)"));
  EXPECT_THAT(fault(std::string(2000, '[')), StartsWith("2: in:3: not JSON"));
}

TEST(DocumentChunks, InvalidUtf8IsNamedByItsLineInEveryMode) {
  for (const Cut cut : {Cut::file, Cut::line, Cut::paragraph}) {
    for (const char* bad : {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80"}) {
      EXPECT_THAT(error_of([&] { documents("good\n\nä\n" + std::string(bad), cut); }),
                  StartsWith("2: in:4: invalid UTF-8"));
    }
  }
  // Far behind the first chunk.
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "0123456789\n";
  EXPECT_THAT(error_of([&] { documents(text + "\xff", Cut::line); }),
              StartsWith("2: in:200001: invalid UTF-8"));
}

TEST(DocumentChunks, DocumentLargerThanTheMaximumIsRefusedWithItsLine) {
  const std::string large(3 << 20, 'x');
  const int64_t most = 2 << 20;
  EXPECT_THAT(error_of([&] { documents(large, Cut::file, "", most); }),
              AllOf(StartsWith("2: in:1: "), HasSubstr("2097152 bytes")));
  EXPECT_THAT(error_of([&] { documents("a\n" + large, Cut::line, "", most); }),
              StartsWith("2: in:2: "));
  EXPECT_THAT(error_of([&] { documents("a\n\nb\n" + large, Cut::paragraph, "", most); }),
              StartsWith("2: in:3: "));
  EXPECT_EQ(documents(large, Cut::file, "", 4 << 20).size(), 1u);
}

/// Zeros without end, which says that it has `size` bytes and counts what it gives.
class Zeros final : public ByteSource {
 public:
  Zeros(std::optional<int64_t> size, int64_t& given) : size_(size), given_(given) {}
  size_t read(char* data, size_t size) override {
    std::memset(data, 0, size);
    given_ += static_cast<int64_t>(size);
    return size;
  }
  std::optional<int64_t> size() const override { return size_; }

 private:
  std::optional<int64_t> size_;
  int64_t& given_;
};

TEST(DocumentSize, WhatNobodyKnowsAheadIsSmall) {
  const auto taken = [](std::optional<int64_t> size, Cut cut) {
    int64_t given = 0;
    Chunk chunk;
    EXPECT_THROW(ChunkReader(std::make_unique<Zeros>(size, given), "zeros", cut).next(chunk),
                 UserError);
    return given;
  };
  EXPECT_EQ(taken(kMaxFileDocumentBytes + 1, Cut::file), 0);
  for (const int64_t given : {taken(std::nullopt, Cut::file), taken(1000, Cut::line)}) {
    EXPECT_GT(given, kMaxDocumentBytes);
    EXPECT_LE(given, kMaxDocumentBytes + (1 << 20));
  }
}

}  // namespace
}  // namespace megalith::data

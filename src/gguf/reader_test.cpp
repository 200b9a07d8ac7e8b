// SPDX-License-Identifier: Apache-2.0
// The reader against files made byte by byte: a good one of each kind, and a table of files that
// are wrong in one way each.
#include "gguf/reader.h"

#include <cmath>

#include "gguf/gguf_fixture.h"

namespace megalith::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kU8 = 0, kI8 = 1, kU16 = 2, kI16 = 3, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7,
                   kText = 8, kArray = 9, kU64 = 10, kI64 = 11, kF64 = 12;
constexpr uint32_t kTypeF32 = 0, kTypeQ4_0 = 2, kTypeQ6K = 14;

TEST_F(GgufTest, ReadsTensorsInEitherVersion) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string good = header(2, 1, version)
                                 .key("general.architecture", "llama")
                                 .tensor("b", {32, 3}, kTypeQ4_0, 32)
                                 .tensor("a", {5}, kTypeF32, 0)
                                 .pad()
                                 .fill(20, 'a')
                                 .pad()
                                 .fill(54, 'b')
                                 .pad()
                                 .str();
    const Reader file(put(good));
    EXPECT_EQ(file.metadata().at("general.architecture").text(), "llama");
    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.tensors()[0].name, "a");
    const TensorEntry& b = *file.find("b");
    EXPECT_EQ(b.shape, (Shape{3, 32}));
    EXPECT_EQ(b.type, TensorType::q4_0);
    EXPECT_EQ(b.bytes, 3 * 18);
    std::string bytes(4, '\0');
    file.read(b, 50, 4, bytes.data());
    EXPECT_EQ(bytes, "bbbb");
    file.read(*file.find("a"), 0, 4, bytes.data());
    EXPECT_EQ(bytes, "aaaa");
    EXPECT_EQ(file.find("c"), nullptr);
    EXPECT_THROW(file.read(b, 51, 4, bytes.data()), InternalError);
  }
}

TEST_F(GgufTest, TheLastTensorNeedsNoPadding) {
  const Reader file(put(header(1, 0).tensor("a", {5}, kTypeF32, 0).pad().fill(20).str()));
  EXPECT_EQ(file.find("a")->bytes, 20);
}

TEST_F(GgufTest, AFileOfKeysAloneIsRead) {
  const Reader file(put(header(0, 1).key("tokenizer.ggml.model", "gpt2").str()));
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.metadata().size(), 1u);
}

TEST_F(GgufTest, TheAlignmentIsTheFiles) {
  const Reader file(put(header(2, 1)
                            .text("general.alignment")
                            .u32(kU32)
                            .u32(8)
                            .tensor("a", {1}, kTypeF32, 0)
                            .tensor("b", {1}, kTypeF32, 8)
                            .pad(8)
                            .fill(4, 'a')
                            .pad(8)
                            .fill(4, 'b')
                            .str()));
  EXPECT_EQ(file.alignment(), 8);
  std::string bytes(4, '\0');
  file.read(*file.find("b"), 0, 4, bytes.data());
  EXPECT_EQ(bytes, "bbbb");
}

TEST_F(GgufTest, EveryTypeOfValue) {
  const Reader file(put(header(0, 14)
                            .text("u8")
                            .u32(kU8)
                            .add<uint8_t>(200)
                            .text("i8")
                            .u32(kI8)
                            .add<int8_t>(-5)
                            .text("u16")
                            .u32(kU16)
                            .add<uint16_t>(60000)
                            .text("i16")
                            .u32(kI16)
                            .add<int16_t>(-300)
                            .text("u32")
                            .u32(kU32)
                            .u32(4000000000u)
                            .text("i32")
                            .u32(kI32)
                            .add<int32_t>(-70000)
                            .text("u64")
                            .u32(kU64)
                            .u64(uint64_t{1} << 63)
                            .text("i64")
                            .u32(kI64)
                            .add<int64_t>(-(int64_t{1} << 40))
                            .text("f32")
                            .u32(kF32)
                            .add(0.5f)
                            .text("f64")
                            .u32(kF64)
                            .add(-0.125)
                            .text("bool")
                            .u32(kBool)
                            .add<uint8_t>(1)
                            .text("text")
                            .u32(kText)
                            .text("\xc3\xa9\n")
                            .text("texts")
                            .u32(kArray)
                            .u32(kText)
                            .u64(3)
                            .text("")
                            .text("x")
                            .text("yz")
                            .text("i16s")
                            .u32(kArray)
                            .u32(kI16)
                            .u64(2)
                            .add<int16_t>(-1)
                            .add<int16_t>(7)
                            .str()));
  const auto at = [&](const char* key) -> const Value& {
    return file.metadata().find(key)->second;
  };
  EXPECT_EQ(at("u8").integer(), 200);
  EXPECT_EQ(at("i8").integer(), -5);
  EXPECT_EQ(at("u16").integer(), 60000);
  EXPECT_EQ(at("i16").integer(), -300);
  EXPECT_EQ(at("u32").integer(), 4000000000);
  EXPECT_EQ(at("i32").integer(), -70000);
  EXPECT_EQ(at("u64").integer(), std::nullopt);
  EXPECT_EQ(at("u64").number(), std::ldexp(1, 63));
  EXPECT_EQ(at("i64").integer(), -(int64_t{1} << 40));
  EXPECT_EQ(at("f32").number(), 0.5);
  EXPECT_EQ(at("f32").integer(), std::nullopt);
  EXPECT_EQ(at("f64").number(), -0.125);
  EXPECT_EQ(at("bool").boolean(), true);
  EXPECT_EQ(at("bool").integer(), std::nullopt);
  EXPECT_EQ(at("u8").boolean(), std::nullopt);
  EXPECT_EQ(at("text").text(), "\xc3\xa9\n");
  EXPECT_EQ(at("texts").kind(), "an array of 3 string");
  EXPECT_THAT(*at("texts").texts(), ElementsAre("", "x", "yz"));
  EXPECT_EQ(at("texts").text(), std::nullopt);
  EXPECT_THAT(*at("i16s").integers(), ElementsAre(-1, 7));
  EXPECT_THAT(*at("i16s").numbers(), ElementsAre(-1.0, 7.0));
  EXPECT_EQ(at("i16s").integer(), std::nullopt);
}

struct BadFile {
  const char* name;
  std::string content;
  const char* message;  // part of what is said
};

Bytes aligned(uint32_t type, uint32_t alignment) {
  return header(0, 1).text("general.alignment").u32(type).u32(alignment);
}

std::vector<BadFile> bad_headers() {
  const std::string one = header(0, 1).key("general.architecture", "llama").str();
  return {
      {"empty", "", "is no GGUF file"},
      {"magic", "GGML" + one.substr(4), "is no GGUF file"},
      {"version 1", header(0, 0, 1).str(), "GGUF version 1 is not supported"},
      {"version 4", header(0, 0, 4).str(), "GGUF version 4 is not supported"},
      {"big-endian", header(0, 0, 0x03000000).str(), "big-endian"},
      {"cut in the counts", one.substr(0, 20), "the number of keys at byte 16: 8 of at least 1"},
      {"cut in a key", one.substr(0, 40), "a key at byte 32"},
      {"cut in a value", one.substr(0, one.size() - 1),
       "the value of general.architecture at byte 64: 5 of at least 1 bytes, the file has 4 left"},
      {"huge number of keys", header(0, uint64_t{1} << 60).fill(100).str(), "keys at byte 24"},
      {"huge number of tensors", header(uint64_t{1} << 63, 0).fill(100).str(),
       "tensors at byte 24"},
      {"empty key", header(0, 1).key("", "x").fill(9).str(), "a key at byte 32 has 0 bytes"},
      {"huge key", header(0, 1).u64(INT64_MAX).fill(9).str(), "a key at byte 32 has 92233"},
      {"key twice", header(0, 2).key("a", "x").key("a", "y").str(), "the key a occurs twice"},
      {"unknown type", header(0, 1).text("a").u32(13).fill(9).str(),
       "the value of a has the unknown type 13"},
      {"truth value", header(0, 1).text("a").u32(kBool).raw("\2").str(), "neither 0 nor 1"},
      {"array of arrays", header(0, 1).text("a").u32(kArray).u32(kArray).u64(1).fill(20).str(),
       "an array of arrays"},
      {"huge array", header(0, 1).text("a").u32(kArray).u32(kU64).u64(uint64_t{1} << 61).str(),
       "2305843009213693952 of at least 8 bytes"},
      {"huge array of texts", header(0, 1).text("a").u32(kArray).u32(kText).u64(UINT64_MAX).str(),
       "the value of a at byte 49"},
      {"text beyond the file",
       header(0, 1).text("a").u32(kArray).u32(kText).u64(2).text("x").u64(2).raw("y").str(),
       "the value of a at byte 66: 2 of at least 1 bytes, the file has 1 left"},
      {"alignment 0", aligned(kU32, 0).str(), "general.alignment"},
      {"alignment 24", aligned(kU32, 24).str(), "general.alignment"},
      {"alignment 2^31", aligned(kU32, 0x80000000).str(), "general.alignment"},
      {"alignment a number", aligned(kF32, 32).str(), "general.alignment"},
  };
}

std::vector<BadFile> bad_tensors() {
  const auto one = [](std::vector<uint64_t> dims, uint32_t type, size_t bytes = 32) {
    return header(1, 0).tensor("a", std::move(dims), type, 0).pad().fill(bytes).str();
  };
  const auto two = [](uint64_t first, uint64_t second, size_t bytes) {
    return header(2, 0)
        .tensor("a", {16}, kTypeF32, first)
        .tensor("b", {16}, kTypeF32, second)
        .pad()
        .fill(bytes)
        .str();
  };
  return {
      {"five dimensions", one({1, 1, 1, 1, 1}, kTypeF32), "tensor a has 5 dimensions"},
      {"no elements", one({4, 0}, kTypeF32), "tensor a has a dimension of 0"},
      {"a negative size", one({uint64_t{1} << 63}, kTypeF32), "tensor a has a dimension of 92"},
      {"elements overflow", one({uint64_t{1} << 40, uint64_t{1} << 40}, kTypeF32),
       "tensor a: its size overflows"},
      {"bytes overflow", one({uint64_t{1} << 61}, kTypeF32), "its size or offset overflows"},
      {"unknown type", one({4}, 4), "tensor a has the unknown type 4"},
      {"part of a block", one({31}, kTypeQ4_0), "rows of 31 elements, Q4_0 needs a multiple of 32"},
      {"part of a large block", one({128, 2}, kTypeQ6K), "Q6_K needs a multiple of 256"},
      {"beyond the file", one({9}, kTypeF32), "has 36 bytes at byte 0 of the data"},
      {"bytes behind", one({8}, kTypeF32, 33), "tensors end at byte"},
      {"overlap", two(0, 32, 128), "tensor b begins at byte 32 of the data, expected 64: it overl"},
      {"both at one place", two(0, 0, 128), "it overlaps another"},
      {"a hole", two(0, 96, 160), "expected 64: a hole"},
      {"a hole in front", two(32, 96, 160), "expected 0: a hole"},
      {"not aligned", two(0, 68, 160), "expected 64: a hole"},
      {"far away", two(0, INT64_MAX - 63, 128), "a hole"},
      {"negative offset", two(0, uint64_t{1} << 63, 128), "its size or offset overflows"},
      {"name of 65", header(1, 0).tensor(std::string(65, 'n'), {4}, 0, 0).pad().fill(16).str(),
       "has 65 bytes, must have 1 to 64"},
      {"name twice",
       header(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).pad().fill(64).str(),
       "tensor a occurs twice"},
      {"a name for the terminal", header(1, 0).tensor("\x1b[2J\n", {4}, 4, 0).pad().fill(16).str(),
       "tensor \\x1b[2J  has"},
  };
}

TEST_F(GgufTest, EveryFaultIsNamed) {
  std::vector<BadFile> files = bad_headers();
  for (BadFile& file : bad_tensors()) files.push_back(std::move(file));
  for (const BadFile& bad : files) {
    const std::filesystem::path path = put(bad.content);
    try {
      const Reader file(path);
      ADD_FAILURE() << bad.name << " was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(bad.message)) << bad.name;
      EXPECT_THAT(error.what(), HasSubstr(path.string())) << bad.name;
      EXPECT_TRUE(error.code() == ExitCode::usage || error.code() == ExitCode::integrity);
    }
  }
}

TEST_F(GgufTest, NoPrefixOfAFileIsTaken) {
  const std::string whole = header(1, 2)
                                .key("general.architecture", "llama")
                                .text("x")
                                .u32(kArray)
                                .u32(kText)
                                .u64(2)
                                .text("a")
                                .text("bc")
                                .tensor("a", {8}, kTypeF32, 0)
                                .pad()
                                .fill(32)
                                .str();
  { const Reader file(put(whole)); }
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(Reader(put(whole.substr(0, size))), IntegrityError) << size;
}

TEST_F(GgufTest, AFolderAndAnAbsentFileAreRefused) {
  EXPECT_THROW(Reader{folder_}, Error);
  EXPECT_THROW(Reader{folder_ / "none.gguf"}, UserError);
}

}  // namespace
}  // namespace megalith::gguf

// SPDX-License-Identifier: Apache-2.0
// The reader against a table of files that are wrong in one way each; the writer against bytes
// derived by hand from the format.
#include "checkpoint/safetensors.h"

#include <cstring>

#include "base/file_hash.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/safetensors_writer.h"

namespace megalith::checkpoint {
namespace {

using ::testing::HasSubstr;

/// A file of this header text, as it is, and `data` bytes of data.
std::string file_of(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data, 'x');
}

class Safetensors : public CheckpointTest {
 protected:
  std::filesystem::path path() const { return folder_ / "a.safetensors"; }
  SafetensorsFile open(const std::string& content) {
    put(path(), content);
    return SafetensorsFile(path());
  }
};

struct BadFile {
  const char* name;
  std::string content;
  const char* message;  // part of what is said
};

std::vector<BadFile> bad_files() {
  const auto one = [](const std::string& entry) { return file_of("{\"a\":" + entry + "}", 8); };
  const std::string good = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  std::string long_length(8, '\xff');
  return {
      {"empty", "", "too few"},
      {"seven bytes", "1234567", "too few"},
      {"length beyond the limit", long_length + "{}", "header claims"},
      {"length past the end", std::string("\x10\0\0\0\0\0\0\0{}", 10), "header claims"},
      {"no header", file_of("", 0), "does not begin"},
      {"space before the brace", file_of(" {}", 0), "does not begin"},
      {"not JSON", file_of("{\"a\":", 0), "not JSON"},
      {"text after the object", file_of("{} x", 0), "not JSON"},
      {"not UTF-8", file_of("{\"\xff\":1}", 0), "not JSON"},
      {"deep nesting", file_of("{\"a\":" + std::string(100000, '['), 0), "nested too deeply"},
      {"name twice", file_of("{\"a\":" + good + ",\"a\":" + good + "}", 8), "'a' twice"},
      {"key twice", one(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"),
       "'dtype' twice"},
      {"no shape", one(R"({"dtype":"F32","data_offsets":[0,8]})"), "exactly"},
      {"extra key", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"), "exactly"},
      {"a list", one("[1,2,3]"), "exactly"},
      {"unknown type", one(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})"), "unknown type"},
      {"type no text", one(R"({"dtype":3,"shape":[2],"data_offsets":[0,8]})"), "unknown type"},
      {"shape no list", one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), "not a list"},
      {"nine dimensions",
       one(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]})"), "not a list"},
      {"negative size", one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "not a size"},
      {"fraction", one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), "not a size"},
      {"exponent", one(R"({"dtype":"F32","shape":[2e0],"data_offsets":[0,8]})"), "not a size"},
      {"minus zero", one(R"({"dtype":"F32","shape":[-0],"data_offsets":[0,0]})"), "not a size"},
      {"beyond 64 bits",
       one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})"), "not a size"},
      {"product overflows",
       one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"), "overflows"},
      {"half a byte", one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})"), "whole bytes"},
      {"one offset", one(R"({"dtype":"F32","shape":[2],"data_offsets":[8]})"), "not a pair"},
      {"offsets reversed", one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "need 8"},
      {"wrong length", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), "need 8"},
      {"begins late", one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "hole"},
      {"overlap",
       file_of("{\"a\":" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
       "hole or an overlap"},
      {"hole",
       file_of("{\"a\":" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})",
               16),
       "tensor b"},
      {"trailing bytes", file_of("{\"a\":" + good + "}", 9), "the file at"},
      {"cut off", file_of("{\"a\":" + good + "}", 7), "the file at"},
      {"metadata no text", file_of(R"({"__metadata__":{"a":1}})", 0), "__metadata__"},
      {"metadata no object", file_of(R"({"__metadata__":["a"]})", 0), "__metadata__"},
  };
}

TEST_F(Safetensors, every_malformed_file_is_refused_by_name) {
  for (const BadFile& bad : bad_files()) {
    SCOPED_TRACE(bad.name);
    const std::string fault = fault_of<IntegrityError>([&] { open(bad.content); });
    EXPECT_THAT(fault, HasSubstr(bad.message));
    EXPECT_THAT(fault, HasSubstr(path().string()));
  }
}

TEST_F(Safetensors, what_the_format_allows_is_read) {
  EXPECT_TRUE(open(file_of("{}", 0)).entries().empty());
  EXPECT_TRUE(open(file_of("{}   ", 0)).entries().empty());
  // A scalar, an empty tensor on a boundary, a type without code here, and metadata.
  const SafetensorsFile file = open(file_of(
      R"({"__metadata__":{"format":"pt"},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},)"
      R"("b":{"dtype":"BOOL","shape":[3],"data_offsets":[4,7]}})",
      7));
  ASSERT_EQ(file.entries().size(), 3U);
  EXPECT_EQ(file.find("s")->shape, Shape{});
  EXPECT_EQ(file.find("e")->bytes, 0);
  EXPECT_EQ(file.find("b")->dtype, std::nullopt);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Safetensors, many_names_take_time_in_proportion) {
  // A list searched from its front for every name would take minutes.
  std::string header = "{";
  constexpr int kNames = 100'000;
  for (int i = 0; i < kNames; ++i) {
    header += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})",
                          i == 0 ? "" : ",", i, i, i + 1);
  }
  EXPECT_EQ(open(file_of(header + "}", kNames)).entries().size(), size_t{kNames});
}

TEST_F(Safetensors, parts_of_a_tensor_are_read) {
  const SafetensorsFile file =
      open(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                   R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                   0) +
           "ABcdef");
  char part[3] = {};
  file.read(*file.find("b"), 1, 2, part);
  EXPECT_STREQ(part, "de");
}

TEST_F(Safetensors, a_folder_or_an_absent_file_is_refused) {
  EXPECT_THAT(fault_of<IntegrityError>([&] { SafetensorsFile file(folder_); }),
              HasSubstr("not a regular file"));
  EXPECT_THROW(SafetensorsFile(folder_ / "none"), UserError);
}

TEST_F(Safetensors, written_bytes_are_the_reference_writers) {
  // Wide types first, then names; compact JSON, metadata first, padded to 8 bytes; no gaps.
  const auto bytes = [](std::string text) {
    return [text = std::move(text)](TensorContent::Sink sink) {
      sink(std::as_bytes(std::span(text)));
    };
  };
  const std::vector<TensorContent> tensors = {
      {"z", DType::bf16, Shape{1, 2}, bytes("1234")},
      {"b", DType::f32, Shape{}, bytes("abcd")},
      {"a", DType::f32, Shape{2}, bytes("ABCDEFGH")},
  };
  const WrittenFile written = write_safetensors(path(), tensors);
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
      R"("z":{"dtype":"BF16","shape":[1,2],"data_offsets":[12,16]}})";
  while (header.size() % 8 != 0) header += ' ';
  const std::string expected = file_of(header, 0) + "ABCDEFGHabcd1234";
  const std::string content = read_file(path());
  EXPECT_EQ(content, expected);
  EXPECT_EQ(written.bytes, static_cast<int64_t>(expected.size()));
  EXPECT_EQ(written.hash, file_hash(std::as_bytes(std::span(expected))));
  EXPECT_EQ(written.tensors.at("z").sha256, sha256(std::as_bytes(std::span("1234", 4))));
  EXPECT_EQ(written.tensors.at("z").hash, file_hash(std::as_bytes(std::span("1234", 4))));
}

// The rank of the reference writer among types of one size: F8_E8M0, F8_E4M3, F8_E5M2, U8.
TEST_F(Safetensors, types_of_8_bits_and_f16_are_written_and_read) {
  const auto bytes = [](std::string text) {
    return [text = std::move(text)](TensorContent::Sink sink) {
      sink(std::as_bytes(std::span(text)));
    };
  };
  const std::vector<TensorContent> tensors = {
      {"a", DType::u8, Shape{2}, bytes("uu")},      {"b", DType::f8_e5m2, Shape{2}, bytes("55")},
      {"c", DType::f8_e4m3, Shape{2}, bytes("44")}, {"d", DType::f8_e8m0, Shape{2}, bytes("88")},
      {"e", DType::f16, Shape{1}, bytes("hh")},
  };
  write_safetensors(path(), tensors);
  const std::string content = read_file(path());
  EXPECT_TRUE(content.ends_with("hh884455uu")) << content;
  EXPECT_THAT(content, HasSubstr(R"("d":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[2,4]})"));
  EXPECT_THAT(content, HasSubstr(R"("c":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[4,6]})"));
  EXPECT_THAT(content, HasSubstr(R"("b":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[6,8]})"));
  const SafetensorsFile file(path());
  for (const TensorContent& tensor : tensors) {
    ASSERT_NE(file.find(tensor.name), nullptr);
    EXPECT_EQ(file.find(tensor.name)->dtype, tensor.dtype);
    EXPECT_EQ(file.find(tensor.name)->shape, tensor.shape);
  }
}

}  // namespace
}  // namespace megalith::checkpoint

// SPDX-License-Identifier: Apache-2.0
// The writer against a file of the Python package gguf 0.19.0, byte for byte, and against the
// reader.
#include "gguf/writer.h"

#include "gguf/gguf_fixture.h"
#include "gguf/reader.h"

namespace megalith::gguf {
namespace {

// GGUFWriter(path, "llama") with these keys and tensors.
constexpr std::string_view kGguf =
    "474755460300000002000000000000000600000000000000140000000000000067656e6572616c2e61726368"
    "69746563747572650800000005000000000000006c6c616d6111000000000000006c6c616d612e626c6f636b"
    "5f636f756e74040000000200000014000000000000006c6c616d612e726f70652e667265715f626173650600"
    "000000401c461c00000000000000746f6b656e697a65722e67676d6c2e6164645f626f735f746f6b656e0700"
    "000001110000000000000067656e6572616c2e6c616e67756167657309000000080000000200000000000000"
    "0200000000000000656e020000000000000064651900000000000000746f6b656e697a65722e67676d6c2e74"
    "6f6b656e5f747970650900000005000000020000000000000003000000ffffffff0800000000000000612e77"
    "6569676874020000000300000000000000020000000000000000000000000000000000000008000000000000"
    "00622e7765696768740100000002000000000000000100000020000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000000803f0000004000004040000080400000a040"
    "0000000000000000003e00c000000000000000000000000000000000000000000000000000000000";

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

/// Hands on `bytes` in parts of `part`.
std::function<void(TensorContent::Sink)> in_parts(std::string bytes, size_t part) {
  return [bytes = std::move(bytes), part](TensorContent::Sink sink) {
    for (size_t at = 0; at < bytes.size(); at += part)
      sink(std::as_bytes(std::span(bytes).subspan(at, std::min(part, bytes.size() - at))));
  };
}

template <typename T>
std::string raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

OrderedMetadata keys() {
  return {{"general.architecture", Value::text("llama")},
          {"llama.block_count", Value::u32(2)},
          {"llama.rope.freq_base", Value::f32(1e4f)},
          {"tokenizer.ggml.add_bos_token", Value::boolean(true)},
          {"general.languages", Value::texts(std::vector<std::string>{"en", "de"})},
          {"tokenizer.ggml.token_type", Value::i32s(std::vector<int32_t>{3, -1})}};
}

std::vector<TensorContent> tensors() {
  return {{"a.weight", TensorType::f32, Shape{2, 3}, in_parts(raw<float>({0, 1, 2, 3, 4, 5}), 7)},
          {"b.weight", TensorType::f16, Shape{2}, in_parts(raw<uint16_t>({0x3e00, 0xc000}), 4)}};
}

TEST_F(GgufTest, WritesTheBytesOfThePackage) {
  const std::filesystem::path path = folder_ / "new.gguf";
  write_file(path, keys(), tensors());
  EXPECT_EQ(hex(read_file(path)), kGguf);
}

TEST_F(GgufTest, WhatWasWrittenIsRead) {
  const std::filesystem::path path = folder_ / "new.gguf";
  OrderedMetadata metadata = keys();
  metadata.emplace_back("f", Value::f32s(std::vector<float>{0.25f, -3}));
  metadata.emplace_back("b", Value::booleans({true, false}));
  metadata.emplace_back("none", Value::texts({}));
  write_file(path, metadata, tensors());
  const Reader file(path);
  EXPECT_EQ(file.metadata().size(), metadata.size());
  for (const auto& [key, value] : metadata) EXPECT_EQ(file.metadata().at(key), value) << key;
  const TensorEntry& a = *file.find("a.weight");
  EXPECT_EQ(a.shape, (Shape{2, 3}));
  std::vector<float> values(6);
  file.read(a, 0, a.bytes, values.data());
  EXPECT_THAT(values, ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(GgufTest, AMistakeOfTheCallerLeavesNoFile) {
  const std::filesystem::path path = folder_ / "new.gguf";
  std::vector<TensorContent> list = tensors();
  list[1].write = in_parts("xyz", 3);
  EXPECT_THROW(write_file(path, keys(), list), InternalError);
  list = tensors();
  list[1].name = list[0].name;
  EXPECT_THROW(write_file(path, keys(), list), InternalError);
  list = tensors();
  list[0].type = TensorType::q8_0;
  EXPECT_THROW(write_file(path, keys(), list), InternalError);
  OrderedMetadata twice = keys();
  twice.push_back(twice.front());
  EXPECT_THROW(write_file(path, twice, tensors()), InternalError);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace megalith::gguf

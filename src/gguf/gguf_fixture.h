// SPDX-License-Identifier: Apache-2.0
// GGUF files made byte by byte, good and bad, without the writer.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace megalith::gguf {

/// Little-endian bytes, one thing after the other.
class Bytes {
 public:
  template <typename T>
  Bytes& add(T number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Bytes& u32(uint32_t number) { return add(number); }
  Bytes& u64(uint64_t number) { return add(number); }
  Bytes& raw(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  Bytes& text(std::string_view text) { return u64(text.size()).raw(text); }
  /// A key with a value of one text.
  Bytes& key(std::string_view key, std::string_view value) { return text(key).u32(8).text(value); }
  Bytes& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    text(name).u32(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) u64(dim);
    return u32(type).u64(offset);
  }
  Bytes& pad(size_t alignment = 32) {
    while (text_.size() % alignment != 0) text_ += '\0';
    return *this;
  }
  Bytes& fill(size_t count, char byte = 'x') {
    text_.append(count, byte);
    return *this;
  }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

inline Bytes header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
  return Bytes().raw("GGUF").u32(version).u64(tensors).u64(keys);
}

class GgufTest : public ::testing::Test {
 protected:
  GgufTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                fmt::format("megalith-gguf-{}-{}", getpid(),
                            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~GgufTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path put(const std::string& content) const {
    const std::filesystem::path path = folder_ / "a.gguf";
    File file(path, File::Mode::create_or_truncate);
    file.write(content);
    file.close();
    return path;
  }
  std::filesystem::path folder_;
};

}  // namespace megalith::gguf

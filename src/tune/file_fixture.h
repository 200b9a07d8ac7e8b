// SPDX-License-Identifier: Apache-2.0
// Tests only: files of one test, a tokenizer for them, and what the reader of a bad one says.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/function_ref.h"
#include "text/tokenizer_fixture.h"
#include "tune/example_file.h"

namespace megalith::tune {

/// The message of the UserError, or "no fault".
inline std::string fault_of(FunctionRef<void()> call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no fault";
}

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "megalith-tune-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  std::string put(const std::string& name, std::string_view content) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << content;
    return path;
  }

  /// Bytes, "ab", "\n\n", and the end token.
  text::Tokenizer tokenizer_ =
      text::Tokenizer::parse(text::small_tokenizer({{"a", "b"}, {"\n", "\n"}}).dump(), "t");
  static constexpr int32_t kEnd = 258;  // the end token
  ExampleCounts counts_;

 private:
  std::filesystem::path folder_;
};

}  // namespace megalith::tune

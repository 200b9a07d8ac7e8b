// SPDX-License-Identifier: Apache-2.0
// Which reader a file goes to.
#include "vocabularies/load_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "gguf/writer.h"
#include "text/base64.h"
#include "vocabularies/piece_fixture.h"

namespace megalith::vocabularies {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kWordLevel[] =
    R"({"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1}}})";

class LoadTokenizer : public ::testing::Test {
 protected:
  LoadTokenizer()
      : folder_(fs::path(::testing::TempDir()) / fmt::format("megalith-load-{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~LoadTokenizer() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path put(const char* name, std::string_view content) const {
    File file(folder_ / name, File::Mode::create_or_truncate);
    file.write(content);
    file.close();
    return folder_ / name;
  }
  static int64_t size(const fs::path& path, const std::string& pattern = "") {
    return load_tokenizer(path, pattern).vocab_size();
  }
  static std::string fault(const fs::path& path, const std::string& pattern = "") {
    try {
      load_tokenizer(path, pattern);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_F(LoadTokenizer, TheContentSaysWhatAFileIs) {
  EXPECT_EQ(size(put("a", kWordLevel)), 2);
  EXPECT_EQ(size(put("b", sentencepiece_file({{"a", 0}}, 1, false))), 4);
  std::string ranks;
  for (int byte = 0; byte < 256; ++byte)
    ranks +=
        fmt::format("{} {}\n", text::encode_base64(std::string(1, static_cast<char>(byte))), byte);
  EXPECT_EQ(size(put("c", ranks), "gpt2"), 257);
  EXPECT_THAT(fault(folder_ / "c"), HasSubstr("--pattern gpt2|cl100k|o200k|llama3|qwen2"));
  gguf::write_file(
      folder_ / "d",
      {{"general.architecture", gguf::Value::text("llama")},
       {"tokenizer.ggml.model", gguf::Value::text("gpt2")},
       {"tokenizer.ggml.pre", gguf::Value::text("gpt-2")},
       {"tokenizer.ggml.tokens", gguf::Value::texts(std::vector<std::string>{"a", "b", "ab"})},
       {"tokenizer.ggml.merges", gguf::Value::texts(std::vector<std::string>{"a b"})}},
      {});
  EXPECT_EQ(size(folder_ / "d"), 3);
  EXPECT_THAT(fault(folder_ / "d", "gpt2"), HasSubstr("--pattern is for"));
  EXPECT_THAT(fault(folder_ / "a", "gpt2"), HasSubstr("--pattern is for"));
  EXPECT_THAT(fault(folder_ / "c", "gpt9"), HasSubstr("--pattern gpt9 is unknown"));
  EXPECT_THAT(fault(put("e", "what is this")), HasSubstr("is neither"));
  EXPECT_THAT(fault(put("f", "")), HasSubstr("is neither"));
  EXPECT_THAT(fault(folder_ / "absent"), HasSubstr("absent"));
}

TEST_F(LoadTokenizer, AFolderHasOne) {
  EXPECT_THAT(fault(folder_), HasSubstr("has no tokenizer.json, tokenizer.model, tekken.json"));
  put("tokenizer.model", sentencepiece_file({{"a", 0}}, 1, false));
  EXPECT_EQ(size(folder_), 4);
  put("tokenizer.json", kWordLevel);
  EXPECT_EQ(size(folder_), 2);
}

}  // namespace
}  // namespace megalith::vocabularies

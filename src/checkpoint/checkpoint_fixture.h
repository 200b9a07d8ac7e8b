// SPDX-License-Identifier: Apache-2.0
// What this room's tests share: a scratch folder, truncated and corrupted files, small saved
// states.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/step_folders.h"

namespace megalith::checkpoint {

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = fmt::format("{}megalith-{}-{}-{}", ::testing::TempDir(),
                                   info->test_suite_name(), info->name(), getpid());
    for (char& c : name) c = c == '.' ? '_' : c;
    folder_ = name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~CheckpointTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  static void put(const std::filesystem::path& path, std::string_view content) {
    File file(path, File::Mode::create_or_truncate);
    file.write(content);
    file.close();
  }
  static void flip(const std::filesystem::path& path, int64_t at) {
    std::string content = read_file(path);
    content.at(static_cast<size_t>(at)) ^= 0x10;
    put(path, content);
  }

  std::filesystem::path folder_;
};

/// The folder in which find_newest finds a checkpoint.
inline std::optional<std::filesystem::path> newest_in(const std::filesystem::path& checkpoints,
                                                      bool verify) {
  const auto reader = find_newest(checkpoints, verify);
  return reader ? std::optional(reader->folder()) : std::nullopt;
}

/// The message of the failure that `action` throws; the test fails if it throws none or another.
template <typename Failure, typename Action>
std::string fault_of(const Action& action) {
  try {
    action();
  } catch (const Failure& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// A tensor of counting f32 values from `first`.
inline TensorContent counting_tensor(const std::string& name, const Shape& shape, float first) {
  std::vector<float> values(static_cast<size_t>(shape.num_elements()));
  std::iota(values.begin(), values.end(), first);
  return {name, DType::f32, shape, [values = std::move(values)](TensorContent::Sink sink) {
            sink(std::as_bytes(std::span(values)));
          }};
}

}  // namespace megalith::checkpoint

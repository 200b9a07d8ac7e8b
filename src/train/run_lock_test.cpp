// SPDX-License-Identifier: Apache-2.0
// One run per folder, and no crash that locks a folder for good.
#include "train/run_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"

namespace megalith::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RunLockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "lock-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string refusal(const fs::path& folder) {
    try {
      const RunLock lock(folder);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_F(RunLockTest, TheSecondIsToldWhoHoldsTheFolder) {
  const fs::path run = folder_ / "a" / "run";
  std::optional<RunLock> first(run);
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  EXPECT_THAT(refusal(run), AllOf(HasSubstr(fmt::format("process {} on host {}", ::getpid(), host)),
                                  HasSubstr(run.string())));
  first.reset();
  EXPECT_FALSE(fs::exists(folder_ / "a"));  // nothing came into it
  EXPECT_EQ(refusal(run), "");
}

TEST_F(RunLockTest, ACrashLeavesTheFolderFree) {
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(folder_);
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(fs::exists(folder_ / "lock"));
  const RunLock lock(folder_);
  EXPECT_EQ(nlohmann::json::parse(read_file(folder_ / "lock")).at("pid"), ::getpid());
}

TEST_F(RunLockTest, ATornOrEmptyLockFileLocksNobodyOut) {
  for (const char* content : {"", "{\"pid\": 12", "[]", "{\"pid\": \"x\"}"}) {
    write_file_durable(folder_ / "lock", content);
    EXPECT_EQ(refusal(folder_), "") << content;
  }
}

TEST_F(RunLockTest, LinksFoldersAndFilesInTheWayAreRefused) {
  fs::create_symlink(folder_ / "elsewhere", folder_ / "lock");
  EXPECT_THAT(refusal(folder_), HasSubstr("not a regular file"));
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
  fs::remove(folder_ / "lock");
  fs::create_directory(folder_ / "lock");
  EXPECT_THAT(refusal(folder_), HasSubstr("not a regular file"));
  write_file_durable(folder_ / "file", "");
  EXPECT_THAT(refusal(folder_ / "file"), HasSubstr("cannot be made a folder"));
  fs::create_symlink(folder_ / "nowhere", folder_ / "dangling");
  EXPECT_THAT(refusal(folder_ / "dangling"), HasSubstr("cannot be made a folder"));
  EXPECT_THAT(refusal(folder_ / std::string(300, 'x')), HasSubstr("cannot be made a folder"));
}

TEST_F(RunLockTest, AFolderWithAnyNameCanBeLocked) {
  EXPECT_EQ(refusal(folder_ / "läufe mit\nZeilen und ' \" \xff"), "");
}

}  // namespace
}  // namespace megalith::train

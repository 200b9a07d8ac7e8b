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
  for (const char* content : {"", "{\"pid\": 12", "[]", "{\"pid\": \"x\"}",
                              R"({"pid": 1e300, "ticks": -1e300, "host": "a", "since": "b"})",
                              R"({"pid": -1, "ticks": 1, "host": "a", "since": "b"})"}) {
    write_file_durable(folder_ / "lock", content);
    EXPECT_EQ(refusal(folder_), "") << content;
  }
}

std::string judgement(const LockHolder& holder, bool shared) {
  try {
    judge_left_over("/nfs/run/lock", holder, shared);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_F(RunLockTest, WhereMachinesShareAFolderTheFileDecides) {
  LockHolder mine;
  {
    const RunLock lock(folder_);
    const auto json = nlohmann::json::parse(read_file(folder_ / "lock"));
    mine = {json.at("pid"), json.at("ticks"), json.at("host"), json.at("since")};
  }
  EXPECT_GT(mine.ticks, 0);
  EXPECT_THAT(judgement(mine, true), HasSubstr("is training in this folder"));
  EXPECT_EQ(judgement(mine, false), "");  // the kernel said that nobody holds it
  // The same number, another process.
  EXPECT_EQ(judgement({mine.pid, mine.ticks + 1, mine.host, ""}, true), "");
  // No such process has no start; neither has a lock file without one.
  EXPECT_EQ(judgement({int64_t{1} << 40, 0, mine.host, ""}, true), "");
  EXPECT_EQ(judgement({mine.pid, 0, mine.host, ""}, true), "");
  const LockHolder elsewhere{77, 5, "node-0017", "2026-01-02T03:04:05Z"};
  EXPECT_THAT(judgement(elsewhere, true),
              AllOf(HasSubstr("process 77 on host node-0017"), HasSubstr("2026-01-02"),
                    HasSubstr("host is dead, remove /nfs/run/lock and start again")));
  EXPECT_EQ(judgement(elsewhere, false), "");  // a container of before, on this machine's disk
  EXPECT_EQ(judgement({}, true), "");
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

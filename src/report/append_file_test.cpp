// SPDX-License-Identifier: Apache-2.0
// Growing and cutting back, with the file's bytes compared whole.
#include "report/append_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "base/error.h"
#include "report/test_folder.h"

namespace megalith::report {
namespace {

TEST(AppendFile, StartsEmptyAndCountsWhatIsAppended) {
  const TestFolder folder;
  AppendFile file(folder / "log");
  EXPECT_EQ(file.position(), 0);
  file.append("one\n");
  file.append("");
  file.append("two\n");
  EXPECT_EQ(file.position(), 8);
  EXPECT_EQ(read_file(folder / "log"), "one\ntwo\n");
}

TEST(AppendFile, ReopeningAtAPositionKeepsTheBytesBeforeItAndDropsTheRest) {
  const TestFolder folder;
  folder.put("log", "one\ntwo\nthr");
  AppendFile file(folder / "log", 4);
  EXPECT_EQ(read_file(folder / "log"), "one\n");
  file.append("2\n");
  EXPECT_EQ(read_file(folder / "log"), "one\n2\n");
}

TEST(AppendFile, PositionZeroDropsEverything) {
  const TestFolder folder;
  folder.put("log", "old");
  AppendFile file(folder / "log");
  EXPECT_EQ(read_file(folder / "log"), "");
}

TEST(AppendFile, AShorterOrMissingFileIsDamageAndLeftAlone) {
  const TestFolder folder;
  folder.put("log", "one\n");
  EXPECT_THROW(AppendFile(folder / "log", 5), IntegrityError);
  EXPECT_EQ(read_file(folder / "log"), "one\n");
  EXPECT_THROW(AppendFile(folder / "absent", 5), IntegrityError);
  EXPECT_FALSE(std::filesystem::exists(folder / "absent"));
}

TEST(AppendFile, AHalfWrittenLineIsRemovedAgain) {
  const TestFolder folder;
  AppendFile file(folder / "log");
  file.append("one\n");
  // A limit of 6 bytes per file: the next write stores two bytes, then fails as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{6, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  EXPECT_THROW(file.append("two\n"), SystemError);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(file.position(), 4);
  EXPECT_EQ(read_file(folder / "log"), "one\n");
  file.append("2\n");
  EXPECT_EQ(read_file(folder / "log"), "one\n2\n");
}

TEST(OpenLines, RefusesAPositionInsideALine) {
  const TestFolder folder;
  folder.put("log", "one\ntwo\n");
  EXPECT_THROW(open_lines(folder / "log", 5), IntegrityError);
  EXPECT_THROW(open_lines(folder / "log", 9), IntegrityError);
  EXPECT_EQ(read_file(folder / "log"), "one\ntwo\n");
  EXPECT_EQ(open_lines(folder / "log", 4).position(), 4);
  EXPECT_EQ(read_file(folder / "log"), "one\n");
}

TEST(OpenLines, EndOfWholeLinesCutsATornLineOnly) {
  const TestFolder folder;
  EXPECT_EQ(end_of_whole_lines(folder / "absent"), 0);
  folder.put("empty", "");
  EXPECT_EQ(end_of_whole_lines(folder / "empty"), 0);
  folder.put("torn", "torn");
  EXPECT_EQ(end_of_whole_lines(folder / "torn"), 0);
  folder.put("log", "one\ntwo\nthr");
  EXPECT_EQ(end_of_whole_lines(folder / "log"), 8);
  folder.put("whole", "one\n");
  EXPECT_EQ(end_of_whole_lines(folder / "whole"), 4);
}

TEST(AppendFile, ALinkInItsPlaceIsNotFollowed) {
  const TestFolder folder;
  const auto other = folder / "other", link = folder / "metrics.jsonl";
  folder.put("other", "precious\n");
  std::filesystem::create_symlink(other, link);
  EXPECT_THROW(AppendFile(link, 0), UserError);
  EXPECT_EQ(read_file(other), "precious\n");
  std::filesystem::remove(other);  // now it leads nowhere, and must not make the file there
  EXPECT_THROW(AppendFile(link, 0), UserError);
  EXPECT_FALSE(std::filesystem::exists(other));
}

}  // namespace
}  // namespace megalith::report

// SPDX-License-Identifier: Apache-2.0
#include "base/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/error.h"
#include "base/file.h"

namespace megalith {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() : old_mask_(::umask(0)) {
    std::string name = ::testing::TempDir() + "megalith-folder-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw SystemError("{} (mkdtemp)", name);
    folder_ = name;
  }
  ~FolderTest() override {
    ::umask(old_mask_);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string refusal(const fs::path& path) {
    try {
      make_folders(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  mode_t old_mask_;
  fs::path folder_;
};

TEST_F(FolderTest, MakesWhatIsMissingForItsOwnerAlone) {
  EXPECT_THAT(make_folders(folder_ / "a" / "b"), ElementsAre(folder_ / "a" / "b", folder_ / "a"));
  EXPECT_TRUE(make_folders(folder_ / "a" / "b").empty());
  EXPECT_THAT(make_folders(folder_ / "a" / "c" / ""), ElementsAre(folder_ / "a" / "c"));
  for (const char* name : {"a", "a/b", "a/c"}) {
    struct stat status {};
    ASSERT_EQ(::stat((folder_ / name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0755u) << name;
  }
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_THAT(make_folders("relative"), ElementsAre("relative"));
  fs::current_path(before);
  EXPECT_TRUE(fs::is_directory(folder_ / "relative"));
  fs::create_directory_symlink(folder_ / "a", folder_ / "link");
  EXPECT_THAT(make_folders(folder_ / "link" / "d"), ElementsAre(folder_ / "link" / "d"));
}

TEST_F(FolderTest, WhatCannotBeAFolderIsRefusedByName) {
  write_file_durable(folder_ / "file", "");
  fs::create_symlink(folder_ / "nowhere", folder_ / "dangling");
  for (const fs::path& path : {folder_ / "file", folder_ / "file" / "x", folder_ / "dangling",
                               folder_ / std::string(300, 'x')}) {
    EXPECT_THAT(refusal(path), HasSubstr(path.string())) << path;
    EXPECT_THAT(refusal(path), HasSubstr("cannot be made a folder")) << path;
  }
  EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
}

TEST_F(FolderTest, OnlyRegularFilesAreReadInside) {
  write_file_durable(folder_ / "file", "");
  fs::create_symlink(folder_ / "file", folder_ / "link");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_NO_THROW(require_regular(folder_ / "file"));
  EXPECT_NO_THROW(require_regular(folder_ / "link"));
  EXPECT_NO_THROW(require_regular(folder_ / "absent"));
  for (const char* name : {"pipe", "."})
    EXPECT_THROW(require_regular(folder_ / name), IntegrityError) << name;
  EXPECT_THROW(require_regular("/dev/zero"), IntegrityError);
}

TEST_F(FolderTest, WhatIsTooLargeForItsPlaceIsNotRead) {
  write_file_durable(folder_ / "file", "four");
  EXPECT_EQ(read_regular(folder_ / "file", 4), "four");
  EXPECT_THROW(read_regular(folder_ / "file", 3), IntegrityError);
  fs::resize_file(folder_ / "file", uint64_t{1} << 40);  // sparse
  EXPECT_THROW(read_regular(folder_ / "file", 1 << 20), IntegrityError);
  EXPECT_THROW(read_regular(folder_, 1 << 20), IntegrityError);
}

}  // namespace
}  // namespace megalith

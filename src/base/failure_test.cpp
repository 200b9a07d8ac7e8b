// SPDX-License-Identifier: Apache-2.0
#include "base/failure.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

namespace megalith {
namespace {

template <typename Thrown>
Failure caught(const Thrown& thrown) {
  return failure_of(std::make_exception_ptr(thrown));
}

TEST(Failure, KeepsTheCodeAndTextOfAnError) {
  const Failure failure = caught(IntegrityError("{} is damaged", "a"));
  EXPECT_EQ(failure.code, ExitCode::integrity);
  EXPECT_EQ(failure.text, "a is damaged");
}

TEST(Failure, AZeroByteInATextDoesNotEndIt) {
  const std::string name("a\0b\0", 4);
  EXPECT_EQ(caught(UserError("{} is unknown; name another", name)).text,
            "a\\x00b\\x00 is unknown; name another");
}

TEST(Failure, APathThatCannotBeIsThePersonsMistake) {
  const auto error = [](std::errc code) {
    return std::filesystem::filesystem_error("cannot open", "/no/where",
                                             std::make_error_code(code));
  };
  const Failure mistake = caught(error(std::errc::no_such_file_or_directory));
  EXPECT_EQ(mistake.code, ExitCode::usage);
  EXPECT_EQ(mistake.text, "/no/where: No such file or directory; name another path");
  EXPECT_EQ(caught(error(std::errc::io_error)).code, ExitCode::failure);
}

TEST(Failure, AFullOrBrokenDiskIsTheMachinesTrouble) {
  for (const int error :
       {ENOENT, EACCES, EPERM, EROFS, EEXIST, EISDIR, ENOTDIR, ELOOP, ENAMETOOLONG})
    EXPECT_TRUE(is_mistake(error)) << error;
  for (const int error : {ENOSPC, EDQUOT, EIO, ENOMEM, EMFILE, ENFILE})
    EXPECT_FALSE(is_mistake(error)) << error;
}

TEST(Failure, NamesWhatIsNoException) {
  EXPECT_EQ(caught(std::runtime_error("disk on fire")).text, "disk on fire");
  EXPECT_EQ(caught(5).text, "an exception of unknown type");
}

TEST(Failure, SaysWhatToDoWithoutMemory) {
  const Failure failure = caught(std::bad_alloc());
  EXPECT_EQ(failure.code, ExitCode::failure);
  EXPECT_NE(failure.text.find("out of memory"), std::string::npos);
}

TEST(Failure, RaisesTheErrorOfItsCode) {
  EXPECT_THROW((Failure{ExitCode::usage, "{}"}.raise()), UserError);
  EXPECT_THROW((Failure{ExitCode::integrity, ""}.raise()), IntegrityError);
  EXPECT_THROW((Failure{ExitCode::failure, ""}.raise()), SystemError);
  EXPECT_THROW((Failure{ExitCode::do_not_restart, ""}.raise()), DoNotRestartError);
}

}  // namespace
}  // namespace megalith

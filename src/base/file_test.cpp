// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "base/error.h"

namespace megalith {
namespace {

using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "file_test.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  int entries() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::filesystem::path folder_;
};

template <typename ErrorType>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing thrown";
  return "";
}

TEST_F(FileTest, ReadsBackWhatWasWritten) {
  const auto path = folder_ / "a";
  File file(path, File::Mode::create_new);
  file.write("hello world");
  file.write_at("J", 1, 0);
  EXPECT_EQ(file.size(), 11);
  file.truncate(5);
  file.sync();
  file.close();
  EXPECT_FALSE(file.is_open());
  EXPECT_EQ(read_file(path), "Jello");
  File appended(path, File::Mode::append);
  appended.write("!!");
  appended.close();
  File again(path, File::Mode::read);
  char bytes[16] = {};
  EXPECT_EQ(again.read(bytes, 3), 3u);
  EXPECT_EQ(again.read(bytes, 16), 4u);
  EXPECT_EQ(again.read(bytes, 16), 0u);
  again.read_at(bytes, 2, 1);
  EXPECT_EQ(std::string(bytes, 2), "el");
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0111, 0u);
  EXPECT_EQ(status.st_mode & 0600, 0600u);
}

TEST_F(FileTest, ReadAtPastTheEndIsAnIntegrityError) {
  write_file_durable(folder_ / "a", "12345");
  File file(folder_ / "a", File::Mode::read);
  char bytes[8];
  EXPECT_THAT(message_of<IntegrityError>([&] { file.read_at(bytes, 4, 3); }),
              HasSubstr("ends at byte 5"));
}

TEST_F(FileTest, MistakesOfAPersonAreUserErrorsThatNameThePath) {
  const auto missing = folder_ / "missing";
  for (const std::function<void()>& action : std::vector<std::function<void()>>{
           [&] { File(missing, File::Mode::read); }, [&] { read_file(missing); },
           [&] { write_file_durable(missing / "x", "y"); }})
    EXPECT_THAT(message_of<UserError>(action), HasSubstr(missing.string()));
  EXPECT_THAT(message_of<UserError>([&] { read_file(folder_); }), HasSubstr("folder"));
  EXPECT_THAT(message_of<UserError>([&] { File(folder_, File::Mode::append); }),
              HasSubstr("directory"));
  write_file_durable(folder_ / "a", "12345");
  EXPECT_THAT(message_of<UserError>([&] { read_file(folder_ / "a", 4); }), HasSubstr("4 bytes"));
  EXPECT_EQ(read_file(folder_ / "a", 5), "12345");
  EXPECT_THAT(message_of<UserError>([&] { File(folder_ / "a", File::Mode::create_new); }),
              HasSubstr("exists"));
}

TEST_F(FileTest, WhatIsNewGoesThroughNoPlantedName) {
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / "link");
  write_file_durable(folder_ / "mine", "mine");
  std::filesystem::create_symlink(folder_ / "mine", folder_ / "to mine");
  for (const char* name : {"link", "mine", "to mine"})
    EXPECT_THAT(message_of<UserError>([&] { File(folder_ / name, File::Mode::create_new); }),
                HasSubstr("exists"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
  EXPECT_EQ(read_file(folder_ / "mine"), "mine");
}

TEST_F(FileTest, TemporaryNamesCannotBeGuessed) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    const std::string name = temporary_beside(folder_ / "a").filename().string();
    ASSERT_EQ(name.size(), 5u + 16u);  // 64 bits of the kernel's random numbers
    EXPECT_TRUE(is_temporary_name(name)) << name;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 100u);
  EXPECT_TRUE(is_temporary_name(temporary_beside("a", "mark-").string(), "mark-"));
  for (const char* other : {".tmp-", ".tmp-x", ".tmp-0123456789abcde", ".tmp-0123456789abcdef0",
                            ".tmp-0123456789ABCDEF", "tmp-0123456789abcdef", ".tmp-mark-0123"})
    EXPECT_FALSE(is_temporary_name(other)) << other;
  // No byte of them is a counter, a clock or a process number.
  for (size_t digit = 5; digit < 21; ++digit) {
    std::set<char> seen;
    for (const std::string& name : names) seen.insert(name[digit]);
    EXPECT_GT(seen.size(), 8u) << digit;
  }
}

TEST_F(FileTest, ReadsFilesThatClaimNoSizeAndPipes) {
  EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Name:"));
  const auto path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::string sent(300000, 'x');
  std::thread writer([&] {
    std::ofstream out(path);
    out << sent;
  });
  EXPECT_EQ(read_file(path), sent);
  writer.join();
  std::thread second([&] {
    std::ofstream out(path);
    out << std::string(30000, 'x');  // fits the pipe: no write is left when the reader gives up
  });
  EXPECT_THROW(read_file(path, 1000), UserError);
  second.join();
}

TEST_F(FileTest, AnUnfinishedDurableWriteIsNowhere) {
  write_file_durable(folder_ / "a", [&](File& file) {
    file.write("half");
    EXPECT_EQ(entries(), 0);  // so that whatever ends the process leaves nothing
  });
  const File scratch = open_scratch(folder_ / "a");
  EXPECT_EQ(entries(), 1);
  EXPECT_EQ(read_file(folder_ / "a"), "half");
}

TEST_F(FileTest, DurableWriteReplacesAndLeavesNothingBehind) {
  const auto path = folder_ / "a";
  write_file_durable(path, "one");
  write_file_durable(path, "two");
  EXPECT_EQ(read_file(path), "two");
  EXPECT_EQ(entries(), 1);
  write_file_durable(
      path,
      [&](File& file) {
        file.write("three");
        EXPECT_EQ(read_file(path), "two");  // the old content is whole until the rename
      },
      false);
  EXPECT_EQ(read_file(path), "three");
}

TEST_F(FileTest, AFailedDurableWriteKeepsTheOldFileAndRemovesTheTemporary) {
  const auto path = folder_ / "a";
  write_file_durable(path, "old");
  EXPECT_THROW(write_file_durable(path,
                                  [](File& file) {
                                    file.write("half");
                                    throw std::runtime_error("full");
                                  }),
               std::runtime_error);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(FileTest, AFullDiskIsASystemErrorThatNamesPathCallAndReason) {
  File full("/dev/full", File::Mode::append);
  const std::string message = message_of<SystemError>([&] { full.write("x"); });
  EXPECT_THAT(message, HasSubstr("/dev/full"));
  EXPECT_THAT(message, HasSubstr("write"));
  EXPECT_THAT(message, HasSubstr("No space left"));
}

TEST_F(FileTest, SignalsDoNotDisturbTransfers) {
  const auto path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  struct sigaction action {
  }, old{};
  action.sa_handler = [](int) {};  // no SA_RESTART: calls return EINTR
  ASSERT_EQ(sigaction(SIGUSR1, &action, &old), 0);
  const std::string sent(1 << 20, 'y');
  std::atomic<bool> done{false};
  const pthread_t reader = pthread_self();
  std::thread writer([&] {
    File out(path, File::Mode::append);
    out.write(sent);  // in pieces of the pipe's 64 KiB
  });
  std::thread disturber([&] {
    while (!done) {
      pthread_kill(reader, SIGUSR1);
      pthread_kill(writer.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  EXPECT_EQ(read_file(path), sent);
  done = true;
  disturber.join();
  writer.join();
  sigaction(SIGUSR1, &old, nullptr);
}

TEST_F(FileTest, ADeviceWithoutEndIsRefused) {
  EXPECT_THAT(message_of<UserError>([&] { read_file("/dev/zero"); }), HasSubstr("/dev/zero"));
  EXPECT_EQ(read_file("/dev/null"), "");
}

TEST_F(FileTest, DescriptorsAreClosedOnExecAndByTheDestructor) {
  int fd = -1;
  {
    File file(folder_ / "a", File::Mode::create_new);
    fd = file.fd();
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    File other(std::move(file));
    EXPECT_FALSE(file.is_open());  // NOLINT(bugprone-use-after-move): the state moving leaves
    EXPECT_EQ(other.fd(), fd);
  }
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

TEST(Sha256, GivesTheKnownAnswersOfFips180) {
  EXPECT_EQ(sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string abc = "abc";
  const std::string want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(sha256(std::as_bytes(std::span(abc))), want);
  Sha256 parts;
  parts.update("a", 1);
  parts.update("bc", 2);
  EXPECT_EQ(parts.finish(), want);
  EXPECT_THROW(parts.update("d", 1), InternalError);
  EXPECT_THROW(parts.finish(), InternalError);
}

}  // namespace
}  // namespace megalith

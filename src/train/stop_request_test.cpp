// SPDX-License-Identifier: Apache-2.0
// The first signal is a wish, the second leaves at once, and what was ignored stays ignored. Each
// case in a process of its own: signals belong to a process.
#include "train/stop_request.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace megalith::train {
namespace {

/// How a child that does `act` and then exits with its result ends, as waitpid tells it.
int status_of(const std::function<int()>& act) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(act());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(StopRequest, TheFirstSignalIsAWish) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const int status = status_of([&] {
      std::signal(signal, SIG_DFL);  // nohup hands on an ignored SIGHUP
      const StopRequest stop;
      if (stop.signal() != 0) return 1;
      std::raise(signal);
      return stop.signal() == signal ? 0 : 2;
    });
    EXPECT_EQ(status, 0) << signal;
  }
}

TEST(StopRequest, TheSecondLeavesAtOnce) {
  for (const int second : {SIGTERM, SIGINT}) {
    const int status = status_of([&] {
      const StopRequest stop;
      std::raise(SIGTERM);
      std::raise(second);
      return 0;
    });
    EXPECT_TRUE(WIFSIGNALED(status)) << second;
    EXPECT_EQ(WTERMSIG(status), second);
  }
}

TEST(StopRequest, AnIgnoredHangupStaysIgnored) {
  const int status = status_of([] {
    std::signal(SIGHUP, SIG_IGN);
    const StopRequest stop;
    std::raise(SIGHUP);
    return stop.signal() == 0 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(StopRequest, OneInsideAnotherSeesTheSameAndTheEndRestores) {
  const int status = status_of([] {
    {
      const StopRequest outer;
      const StopRequest inner;
      std::raise(SIGTERM);
      if (outer.signal() != SIGTERM || inner.signal() != SIGTERM) return 1;
    }
    std::raise(SIGTERM);  // nobody catches it any more
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

}  // namespace
}  // namespace megalith::train

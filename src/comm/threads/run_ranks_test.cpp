// SPDX-License-Identifier: Apache-2.0
// What goes wrong on one rank ends all of them, soon, with the first cause named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/host.h"
#include "comm/backends.h"
#include "comm/collective_cases.h"

namespace megalith::comm {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

/// What run_ranks throws; "" when nothing.
std::string failure_of(int ranks, FunctionRef<void(Communicator&)> body, double deadline = 30) {
  try {
    run_ranks(ranks, body, {deadline});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(RunRanks, AThrowEndsTheOthersWithItsCause) {
  for (int culprit = 0; culprit < 4; ++culprit) {
    std::vector<std::string> seen(4);
    std::string told;
    const auto body = [&](Communicator& comm) {
      comm.set_step(12);
      comm.barrier("start");
      if (comm.rank() == culprit) throw UserError("bad recipe");
      std::vector<float> x(100);
      try {
        comm.wait(comm.start_all_reduce_max(view_of(x), "loss"));
      } catch (const RankFailure& failure) {
        seen[static_cast<size_t>(comm.rank())] = failure.what();
        EXPECT_EQ(failure.code(), ExitCode::usage);
        throw;
      }
    };
    try {
      run_ranks(4, body);
    } catch (const UserError& error) {
      told = error.what();
    }
    const std::string first = fmt::format(
        "rank {} on {} failed in step 12 after calling barrier 'start' of group 'world': bad "
        "recipe",
        culprit, host_name());
    EXPECT_EQ(told, first);
    for (int r = 0; r < 4; ++r) {
      if (r == culprit) continue;
      EXPECT_THAT(seen[static_cast<size_t>(r)],
                  AllOf(HasSubstr(fmt::format("rank {} on {} in step 12, ", r, host_name())),
                        HasSubstr("'loss'"), HasSubstr("stopped because " + first)));
    }
  }
}

TEST(RunRanks, AThrowReachesSubgroups) {
  const std::string failure = failure_of(4, [](Communicator& world) {
    const std::vector<Membership> table{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    const auto pair = world.split(table, "pair");
    if (world.rank() == 0) throw std::runtime_error("disk on fire");
    for (int i = 0; i < 1000; ++i) pair->barrier("busy");
    world.barrier("end");
  });
  EXPECT_THAT(failure, MatchesRegex("rank 0 on .* failed after calling split 'pair' of group "
                                    "'world': disk on fire"));
}

TEST(RunRanks, DifferentKindsAreNamed) {
  const std::string failure = failure_of(3, [](Communicator& comm) {
    std::vector<float> x(6);
    comm.set_step(7);
    comm.barrier("before");
    if (comm.rank() == 1) {
      comm.wait(comm.start_broadcast(view_of(x), 0, "weights"));
    } else {
      comm.wait(comm.start_all_reduce_max(view_of(x), "gradients"));
    }
  });
  EXPECT_THAT(failure,
              AllOf(HasSubstr(" in step 7: ranks disagree on call 1 of group 'world'"),
                    HasSubstr("broadcast 'weights' of 6 f32"),
                    HasSubstr("all_reduce_max 'gradients' of 6 f32"), HasSubstr("rank 1")));
}

TEST(RunRanks, DifferentCountDtypeLabelAndRootAreErrors) {
  for (int what = 0; what < 4; ++what) {
    const std::string failure = failure_of(2, [&](Communicator& comm) {
      const bool odd = comm.rank() == 1;
      std::vector<double> x(16);
      const View view(reinterpret_cast<std::byte*>(x.data()),
                      odd && what == 0 ? DType::f32 : DType::f64, Shape{odd && what == 1 ? 7 : 8});
      comm.wait(comm.start_broadcast(view, odd && what == 2 ? 1 : 0, odd && what == 3 ? "b" : "a"));
    });
    EXPECT_THAT(failure, AllOf(HasSubstr("disagree on call 0"), HasSubstr("rank 0 calls broadcast"),
                               HasSubstr("rank 1 calls broadcast")))
        << what;
  }
}

TEST(RunRanks, ASendMustMatchItsReceive) {
  const std::string failure = failure_of(2, [](Communicator& comm) {
    std::vector<float> x(4);
    if (comm.rank() == 0) {
      comm.wait(comm.start_send(1, view_of(x), "activation 3"));
    } else {
      comm.wait(comm.start_receive(0, view_of(x), "activation 4"));
    }
  });
  EXPECT_THAT(failure, AllOf(HasSubstr("message 0 from 0 to 1"), HasSubstr("activation 3"),
                             HasSubstr("activation 4")));
}

TEST(RunRanks, TheDeadlineNamesWhoIsMissingAndWhatItDoes) {
  const double begin = monotonic_seconds();
  std::atomic<bool> has_called{false};
  const std::string failure = failure_of(
      3,
      [&](Communicator& comm) {
        std::vector<float> x(4);
        comm.set_step(5);
        if (comm.rank() == 2) {
          // A receive that nobody sends for.
          comm.set_deadline(20);
          Ticket ticket = comm.start_receive(0, view_of(x), "gradient 1");
          has_called.store(true);
          comm.wait(std::move(ticket));
        } else {
          while (!has_called.load()) std::this_thread::yield();
          comm.wait(comm.start_all_reduce_max(view_of(x), "norm"));
        }
      },
      0.2);
  EXPECT_THAT(failure, AllOf(HasSubstr(fmt::format(" on {} in step 5, ", host_name())),
                             HasSubstr("all_reduce_max 'norm'"), HasSubstr("waited 0.2 s"),
                             HasSubstr("rank 2 has not started it"), HasSubstr("'gradient 1'")));
  EXPECT_LT(monotonic_seconds() - begin, 10);
}

// Rank 0 works for two deadlines on something of its own. Rank 2 waits for rank 1, which waits
// for rank 0 in another group: it has to hear of the work too.
TEST(RunRanks, WorkThatSendsHeartbeatsMayTakeLong) {
  constexpr double kDeadline = 1.5;
  double longest = 0;  // that rank 0 was silent
  const auto run = [&](bool sends_heartbeats) {
    double last = monotonic_seconds();
    longest = 0;
    return failure_of(
        3,
        [&](Communicator& world) {
          const std::vector<Membership> table{{0, 0}, {0, 1}, {1, 2}};
          const auto group = world.split(table, "group");
          const double end = monotonic_seconds() + 2 * kDeadline;
          while (world.rank() == 0 && monotonic_seconds() < end) {
            if (sends_heartbeats) world.heartbeat();
            const double now = monotonic_seconds();
            longest = std::max(longest, now - std::exchange(last, now));
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
          if (world.rank() < 2) group->barrier("checkpoint");
          world.barrier("step");
        },
        kDeadline);
  };
  std::string failure = run(true);
  // A machine that stopped rank 0 for long may have stopped its heartbeats: that proves nothing.
  for (int again = 0; again < 4 && !failure.empty() && longest > kDeadline / 2; ++again)
    failure = run(true);
  EXPECT_EQ(failure, "");
  EXPECT_THAT(run(false), AllOf(HasSubstr("the deadline"), HasSubstr("has not started it")));
}

/// Ranks of a process that a test watches end; by SIGALRM when it would not.
[[noreturn]] void ranks_end(FunctionRef<void(Communicator&)> body) {
  ::alarm(120);
  run_ranks(3, body, {.unwind_seconds = 4});
  std::_Exit(99);
}

class RunRanksDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// A thread cannot be ended from outside. Rank 1 hangs outside of any call.
TEST_F(RunRanksDeathTest, AHungRankIsNamedWithTheFirstCause) {
  const auto hang = [](Communicator& comm) {
    comm.set_step(4);
    comm.barrier("start");
    comm.set_deadline(3);
    while (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
    comm.barrier("step");
  };
  EXPECT_EXIT(ranks_end(hang), testing::ExitedWithCode(1),
              "^rank [02] on .* in step 4, barrier 'step' .*: waited 3 s, the deadline; "
              "rank 1 has not started it, its last call was barrier 'start' of group 'world'; "
              "rank 1 has not ended 4 s later, its last call was barrier 'start' of group "
              "'world'; the process ends all the same\n$");
}

TEST_F(RunRanksDeathTest, TheExitCodeIsThatOfTheFirstCause) {
  const auto hang = [](Communicator& comm) {
    if (comm.rank() == 0) throw IntegrityError("damaged");
    while (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::hours(1));
    comm.barrier("step");
  };
  EXPECT_EXIT(ranks_end(hang), testing::ExitedWithCode(3),
              "^rank 0 on .* failed: damaged; rank 2 has not ended");
}

// After a failure too: rank 2 has twice as much to do as a hung one is given.
[[noreturn]] void work_outlives_a_failure() {
  ::alarm(120);
  constexpr double kUnwind = 4;
  bool has_ended = false;
  const auto body = [&](Communicator& comm) {
    if (comm.rank() == 0) throw UserError("bad recipe");
    const double end = monotonic_seconds() + 2 * kUnwind;
    while (comm.rank() == 2 && monotonic_seconds() < end) {
      comm.heartbeat();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (comm.rank() == 2) has_ended = true;
    comm.barrier("step");
  };
  try {
    run_ranks(3, body, {.unwind_seconds = kUnwind});
  } catch (const UserError&) {
    std::_Exit(has_ended ? 0 : 98);
  }
  std::_Exit(99);
}

TEST_F(RunRanksDeathTest, WorkThatSendsHeartbeatsMayOutliveAFailure) {
  EXPECT_EXIT(work_outlives_a_failure(), testing::ExitedWithCode(0), "");
}

TEST(RunRanks, ARankThatReturnsIsMissed) {
  const std::string failure = failure_of(3, [](Communicator& comm) {
    comm.barrier("one");
    if (comm.rank() != 1) comm.barrier("two");
  });
  EXPECT_THAT(failure, AllOf(HasSubstr("barrier 'two'"), HasSubstr("rank 1 has ended"),
                             HasSubstr("barrier 'one'")));
}

TEST(RunRanks, AbortNamesItsCause) {
  const std::string failure = failure_of(2, [](Communicator& comm) {
    if (comm.rank() == 0) comm.abort("told to stop");
    comm.barrier("never");
  });
  EXPECT_EQ(failure, fmt::format("rank 0 on {} failed: told to stop", host_name()));
}

TEST(RunRanks, ATicketNeverWaitedForIsAnError) {
  const std::string failure = failure_of(2, [](Communicator& comm) {
    std::vector<float> x(4);
    { const Ticket ticket = comm.start_all_reduce_max(view_of(x), "dropped"); }
  });
  EXPECT_THAT(failure, AllOf(HasSubstr("'dropped'"), HasSubstr("without a wait")));
}

// The buffers of a rank that unwinds between start and wait are gone when the others arrive; they
// must not be touched (the address sanitizer watches), and nobody hangs.
TEST(RunRanks, UnwindingWithdrawsBuffers) {
  for (int i = 0; i < 50; ++i) {
    const std::string failure = failure_of(3, [&](Communicator& comm) {
      std::vector<float> x(5000), y(15000);
      const Part part = part_of(15000, comm.rank(), 3);
      Ticket first = comm.start_all_gather(view_of(x), view_of(y), "first");
      std::vector<float> z(static_cast<size_t>(3 * part.count));
      Ticket second = comm.start_all_to_all(view_of(y), view_of(z), "second");
      if (comm.rank() == i % 3) throw std::runtime_error("between start and wait");
      if (comm.rank() == (i + 1) % 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      comm.wait(std::move(first));
      comm.wait(std::move(second));
      comm.barrier("end");
    });
    EXPECT_THAT(failure, EndsWith("between start and wait"));
  }
}

TEST(RunRanks, RequireSameNamesTwoRanks) {
  EXPECT_EQ(failure_of(3, [](Communicator& comm) { require_same(comm, "recipe", "1f"); }), "");
  const std::string failure = failure_of(
      3, [](Communicator& comm) { require_same(comm, "recipe", comm.rank() == 2 ? "2e" : "1f"); });
  EXPECT_THAT(failure, AllOf(HasSubstr("recipe"), HasSubstr("'1f'"), HasSubstr("rank 2 has '2e'")));
}

// Each rank talks on two threads at once: numbers, event counts and waits do not mix.
TEST(RunRanks, ASecondThreadTalksAtTheSameTime) {
  run_ranks(4, [](Communicator& world) {
    const auto second = world.for_second_thread("saving");
    std::thread other([&] {
      for (int64_t i = 0; i < 300; ++i) {
        const int64_t mine = 1000 * i + second->rank();
        const auto all = second->exchange_values(std::span<const int64_t>(&mine, 1), "saved");
        for (int64_t r = 0; r < 4; ++r) EXPECT_EQ(all[static_cast<size_t>(r)], 1000 * i + r);
      }
    });
    for (int64_t i = 0; i < 500; ++i) {
      std::vector<int64_t> sum{i + world.rank()};
      world.wait(world.start_all_reduce_sum(view_of(sum), "trained"));
      EXPECT_EQ(sum[0], 4 * i + 6);
    }
    other.join();
  });
}

TEST(RunRanks, AFailureReachesSecondThreads) {
  const std::string failure = failure_of(3, [](Communicator& world) {
    const auto second = world.for_second_thread("saving");
    std::string seen;
    std::thread other([&] {
      try {
        for (int i = 0; i < 1000000; ++i) second->barrier("busy");
      } catch (const std::exception& error) {
        seen = error.what();
      }
    });
    if (world.rank() == 1) world.abort("disk full");
    other.join();
    EXPECT_THAT(seen, AllOf(HasSubstr("stopped because rank 1 on "), EndsWith("disk full")));
  });
  EXPECT_THAT(failure, AllOf(HasSubstr("rank 1 on "), EndsWith("disk full")));
}

// Sixteen ranks on whatever cores there are: random rings, groups and reductions.
TEST(RunRanks, ManyRanksOnFewCoresFinish) {
  for (int round = 0; round < 10; ++round) {
    run_ranks(16,
              [&](Communicator& world) {
                std::vector<Membership> table;
                for (int r = 0; r < 16; ++r) table.push_back({r % (1 << round % 4), r});
                const auto group = world.split(table, "group");
                std::vector<int64_t> sum{1}, in{0}, out{world.rank()};
                for (int i = 0; i < 10; ++i) {
                  sum = {1};
                  Ticket receive =
                      world.start_receive((world.rank() + 15) % 16, view_of(in), "ring");
                  Ticket send = world.start_send((world.rank() + 1) % 16, view_of(out), "ring");
                  group->wait(group->start_all_reduce_sum(view_of(sum), "sum"));
                  world.wait(std::move(send));
                  world.wait(std::move(receive));
                  ASSERT_EQ(sum[0], group->size());
                  ASSERT_EQ(in[0], (world.rank() + 15) % 16);
                }
              },
              {30});
  }
}

}  // namespace
}  // namespace megalith::comm

// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes: what goes wrong on one ends all of them, soon, and the message names
// rank, host, step and call. (What goes right: communicator_test.cpp.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "comm/collective_cases.h"
#include "comm/messages/mailbox_fixture.h"

namespace megalith::comm {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

TEST(MessageCommunicator, AThrowEndsTheOthersWithItsCause) {
  for (int culprit = 0; culprit < 4; ++culprit) {
    std::atomic<int> past_the_barrier{0};  // a failure may overtake the barrier's own messages
    const auto errors = run_mailbox_ranks(4, [&](Communicator& comm) {
      comm.set_step(12);
      comm.barrier("start");
      ++past_the_barrier;
      while (comm.rank() == culprit && past_the_barrier < 4) std::this_thread::yield();
      if (comm.rank() == culprit) throw UserError("bad recipe");
      std::vector<float> x(100);
      comm.wait(comm.start_all_reduce_max(view_of(x), "loss"));
    });
    for (int r = 0; r < 4; ++r) {
      const std::string& error = errors[static_cast<size_t>(r)];
      const std::string first = fmt::format(
          "rank {0} on host{0} failed in step 12 after calling barrier 'start' of group 'world': "
          "bad recipe",
          culprit);
      if (r == culprit) {
        EXPECT_EQ(error, first);
        continue;
      }
      EXPECT_THAT(error, AllOf(HasSubstr(fmt::format("rank {0} on host{0} in step 12, ", r)),
                               HasSubstr("'loss'"), HasSubstr("stopped because " + first)));
    }
  }
}

// Wherever the training thread of the rank is by then.
TEST(MessageCommunicator, AFailureOfASecondThreadIsToldInOneWay) {
  for (const bool waits : {false, true}) {
    const auto errors = run_mailbox_ranks(3, [&](Communicator& world) {
      const auto second = world.for_second_thread("saving");
      second->set_step(4);
      second->barrier("written");
      world.set_step(7);
      world.barrier("step");
      if (world.rank() == 1) {
        second->abort("disk full");
        if (!waits) throw SystemError("disk full");
      }
      world.barrier("never");
    });
    const std::string told =
        "rank 1 on host1 failed in step 4 after calling barrier 'written' of group 'saving': "
        "disk full";
    EXPECT_EQ(errors[1], told);
    for (const size_t other : {0u, 2u})
      EXPECT_THAT(errors[other], EndsWith("stopped because " + told));
  }
}

TEST(MessageCommunicator, WhoFailsSecondNamesTheFirst) {
  std::atomic<int> past_the_barrier{0};
  std::atomic<bool> failed{false};
  const auto errors = run_mailbox_ranks(2, [&](Communicator& world) {
    world.set_step(3);
    world.barrier("start");
    ++past_the_barrier;
    while (past_the_barrier < 2) std::this_thread::yield();
    if (world.rank() == 0) {
      world.abort("disk full");
      failed = true;
    }
    while (!failed) std::this_thread::yield();
    throw SystemError("out of memory");
  });
  EXPECT_EQ(errors[0],
            "rank 0 on host0 failed in step 3 after calling barrier 'start' of group 'world': "
            "disk full");
  EXPECT_EQ(errors[1], "rank 1 on host1 in step 3: stopped because " + errors[0]);
}

// A rank that computes keeps the data of others waiting no longer than to its next look.
TEST(MessageCommunicator, DataMovesOnWhileARankComputes) {
  std::atomic<bool> received{false};
  const auto errors = run_mailbox_ranks(2, [&](Communicator& comm) {
    std::vector<float> x(100, comm.rank() == 0 ? 3.0f : 0.0f);
    if (comm.rank() == 1) {
      comm.wait(comm.start_receive(0, view_of(x), "bucket"));
      EXPECT_EQ(x[99], 3.0f);
      received = true;
      return;
    }
    Ticket ticket = comm.start_send(1, view_of(x), "bucket");
    const double until = monotonic_seconds() + 20;
    while (!received && monotonic_seconds() < until) comm.advance(ticket);
    EXPECT_TRUE(received) << "before the sender waits";
    comm.wait(std::move(ticket));
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

// What follows the body records nothing: the device went with it.
TEST(MessageCommunicator, ADeviceOfTheBodyGoesWithIt) {
  const auto errors = run_mailbox_ranks(2, [](Communicator& comm) {
    const auto device = device::make_trace_device({});
    comm.set_device(device.get());
    comm.barrier("with a device");
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(MessageCommunicator, DifferentCallsAreNamed) {
  for (int what = 0; what < 5; ++what) {
    const auto errors = run_mailbox_ranks(3, [&](Communicator& comm) {
      const bool odd = comm.rank() == 1;
      comm.set_step(12);
      comm.barrier("before");
      if (odd && what == 4) return comm.barrier("loss");
      std::vector<double> x(16);
      const View view(reinterpret_cast<std::byte*>(x.data()),
                      odd && what == 0 ? DType::f32 : DType::f64, Shape{odd && what == 1 ? 7 : 8});
      comm.wait(comm.start_broadcast(view, odd && what == 2 ? 1 : 0, odd && what == 3 ? "b" : "a"));
    });
    // Whoever sees it first names both; the others are told.
    for (const std::string& error : errors) {
      EXPECT_THAT(error, AllOf(HasSubstr("ranks disagree on call"), HasSubstr("rank 1 on host1"),
                               HasSubstr("in step 12")))
          << what;
    }
  }
}

/// Gives data out before the identities that were sent first, as a network may.
class LateHeaders final : public MailboxTransport {
 public:
  using MailboxTransport::MailboxTransport;
  Handle start_receive(int from, int tag, std::byte* data, int64_t bytes) override {
    const Handle handle = MailboxTransport::start_receive(from, tag, data, bytes);
    if (tag >= MessageWorld::kTagsPerGroup && tag % 2 == 0) late_[handle] = 20;
    return handle;
  }
  bool test(Handle handle) override {
    const auto found = late_.find(handle);
    if (found != late_.end() && found->second-- > 0) return false;
    return MailboxTransport::test(handle);
  }

 private:
  std::map<Handle, int> late_;
};

TEST(MessageCommunicator, DataThatDoesNotFitIsADifferentCall) {
  const auto errors = run_mailbox_ranks<LateHeaders>(2, [](Communicator& comm) {
    std::vector<double> x(comm.rank() == 1 ? 7 : 8);
    comm.wait(comm.start_broadcast(view_of(x), 0, "weights"));
  });
  EXPECT_THAT(errors[1],
              AllOf(HasSubstr("ranks disagree on call"), HasSubstr("broadcast 'weights' of 7 f64"),
                    HasSubstr("broadcast 'weights' of 8 f64")));
}

TEST(MessageCommunicator, ASendMustMatchItsReceive) {
  const auto errors = run_mailbox_ranks(2, [](Communicator& comm) {
    std::vector<float> x(4);
    if (comm.rank() == 0) {
      comm.wait(comm.start_send(1, view_of(x), "activation 3"));
    } else {
      comm.wait(comm.start_receive(0, view_of(x), "activation 4"));
    }
  });
  EXPECT_THAT(errors[1], AllOf(HasSubstr("activation 3"), HasSubstr("activation 4")));
}

TEST(MessageCommunicator, TheDeadlineNamesWhoIsMissing) {
  const double begin = monotonic_seconds();
  std::atomic<int> given_up{0};
  const auto errors = run_mailbox_ranks(3, [&](Communicator& comm) {
    comm.set_step(5);
    comm.barrier("together");
    while (comm.rank() == 2 && given_up < 2 && monotonic_seconds() < begin + 60)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comm.set_deadline(0.3);
    std::vector<float> x(4);
    try {
      comm.wait(comm.start_all_reduce_max(view_of(x), "norm"));
    } catch (...) {
      ++given_up;
      throw;
    }
  });
  for (const int rank : {0, 1}) {
    EXPECT_THAT(errors[static_cast<size_t>(rank)],
                AllOf(HasSubstr("in step 5"), HasSubstr("all_reduce_max 'norm'"),
                      HasSubstr("rank 2 on host2 has not started it")));
  }
  EXPECT_LT(monotonic_seconds() - begin, 10);
}

// Calls whose identities never meet: each rank says in what it waited itself, for whom.
TEST(MessageCommunicator, TheDeadlineNamesTwoCallsThatCannotMeet) {
  for (const bool groups : {false, true}) {
    const auto errors = run_mailbox_ranks(2, [&](Communicator& world) {
      const std::vector<Membership> both(2);
      const auto one = world.split(both, "one"), other = world.split(both, "other");
      const bool odd = world.rank() == 1;
      std::vector<float> x(4);
      world.set_step(5);
      world.barrier("start");
      world.set_deadline(0.5);
      if (groups) return (odd ? one : other)->barrier("end of step");
      if (odd) return world.wait(world.start_receive(0, view_of(x), "activation 3"));
      world.wait(world.start_all_reduce_max(view_of(x), "norm"));
    });
    const std::string calls[] = {
        groups ? "barrier 'end of step' (call 0 of group 'other')"
               : "all_reduce_max 'norm' of 4 f32",
        groups ? "barrier 'end of step' (call 0 of group 'one')" : "send 'activation 3' of 4 f32"};
    for (const size_t rank : {0u, 1u}) {
      EXPECT_THAT(
          errors[rank],
          AllOf(HasSubstr(fmt::format("rank {0} on host{0} in step 5, {1}", rank, calls[rank])),
                HasSubstr("waited 0.5 s, the deadline"), HasSubstr("has not started it")));
    }
  }
}

// Rank 0 works for two deadlines; then it hangs for as long.
TEST(MessageCommunicator, WorkThatSendsHeartbeatsMayTakeLong) {
  constexpr double kDeadline = 1.5;
  double longest = 0;  // that rank 0 was silent
  const auto run = [&](bool sends_heartbeats) {
    double last = monotonic_seconds();
    longest = 0;
    return run_mailbox_ranks(
        3,
        [&](Communicator& world) {
          const double end = monotonic_seconds() + 2 * kDeadline;
          while (world.rank() == 0 && monotonic_seconds() < end) {
            if (sends_heartbeats) world.heartbeat();
            const double now = monotonic_seconds();
            longest = std::max(longest, now - std::exchange(last, now));
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
          world.barrier("step");
        },
        kDeadline);
  };
  const std::vector<std::string> none(3);
  auto errors = run(true);
  // A machine that stopped rank 0 for long may have stopped its heartbeats: that proves nothing.
  for (int again = 0; again < 4 && errors != none && longest > kDeadline / 2; ++again)
    errors = run(true);
  EXPECT_EQ(errors, none);
  errors = run(false);
  for (const size_t rank : {1u, 2u})
    EXPECT_THAT(errors[rank],
                AllOf(HasSubstr("the deadline"), HasSubstr("rank 0 on host0 has not started it")));
}

/// A library at whose end no message may be open.
class WatchedTransport final : public MailboxTransport {
 public:
  using MailboxTransport::MailboxTransport;
  ~WatchedTransport() override { EXPECT_THAT(open_, testing::IsEmpty()); }
  Handle start_send(int to, int tag, const std::byte* data, int64_t bytes) override {
    return opened(MailboxTransport::start_send(to, tag, data, bytes));
  }
  Handle start_receive(int from, int tag, std::byte* data, int64_t bytes) override {
    return opened(MailboxTransport::start_receive(from, tag, data, bytes));
  }
  bool test(Handle handle) override {
    const bool done = MailboxTransport::test(handle);
    if (done) open_.erase(handle);
    return done;
  }
  bool cancel_receive(Handle handle) override {
    open_.erase(handle);
    return MailboxTransport::cancel_receive(handle);
  }

 private:
  Handle opened(Handle handle) {
    open_.insert(handle);
    return handle;
  }
  std::set<Handle> open_;
};

TEST(MessageCommunicator, NoMessageIsOpenAtTheEnd) {
  const auto errors = run_mailbox_ranks<WatchedTransport>(3, [](Communicator& world) {
    const auto second = world.for_second_thread("saving");
    world.barrier("step");
    world.heartbeat();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(MessageCommunicator, GroupsNestAndDoNotMix) {
  const auto errors = run_mailbox_ranks(8, [](Communicator& world) {
    std::vector<Membership> halves, pairs;
    for (int r = 0; r < 8; ++r) halves.push_back({r / 4, r});
    const auto half = world.split(halves, "half");
    for (int r = 0; r < 4; ++r) pairs.push_back({r % 2, -r});
    const auto pair = half->split(pairs, "pair");
    const auto second = world.for_second_thread("saving");
    for (int64_t i = 0; i < 20; ++i) {
      std::vector<int64_t> in_half{i}, in_pair{i};
      Ticket a = half->start_all_reduce_sum(view_of(in_half), "half");
      Ticket b = pair->start_all_reduce_sum(view_of(in_pair), "pair");
      ASSERT_EQ(second->sum(i, "second"), 8 * i);
      half->wait(std::move(a));
      pair->wait(std::move(b));
      ASSERT_EQ(in_half[0], 4 * i);
      ASSERT_EQ(in_pair[0], 2 * i);
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(MessageCommunicator, ASecondThreadTalksAtTheSameTime) {
  const auto errors = run_mailbox_ranks(3, [](Communicator& world) {
    const auto second = world.for_second_thread("saving");
    std::thread other([&] {
      for (int64_t i = 0; i < 100; ++i) {
        const int64_t mine = 1000 * i + second->rank();
        const auto all = second->exchange_values(std::span<const int64_t>(&mine, 1), "saved");
        for (int64_t r = 0; r < 3; ++r) EXPECT_EQ(all[static_cast<size_t>(r)], 1000 * i + r);
      }
    });
    for (int64_t i = 0; i < 200; ++i) {
      std::vector<int64_t> sum{i + world.rank()};
      world.wait(world.start_all_reduce_sum(view_of(sum), "trained"));
      EXPECT_EQ(sum[0], 3 * i + 3);
    }
    other.join();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// Buffers of a rank that unwinds between start and wait are not written to afterwards (the address
// sanitizer watches), and nobody hangs.
TEST(MessageCommunicator, UnwindingGivesUpItsBuffers) {
  for (int i = 0; i < 20; ++i) {
    const auto errors = run_mailbox_ranks(3, [&](Communicator& comm) {
      std::vector<float> x(5000), y(15000);
      const Part part = part_of(15000, comm.rank(), 3);
      Ticket first = comm.start_all_gather(view_of(x), view_of(y), "first");
      std::vector<float> z(static_cast<size_t>(3 * part.count));
      Ticket second = comm.start_all_to_all(view_of(y), view_of(z), "second");
      if (comm.rank() == i % 3) throw std::runtime_error("between start and wait");
      comm.wait(std::move(first));
      comm.wait(std::move(second));
      comm.barrier("end");
    });
    for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("between start and wait"));
  }
}

TEST(MessageCommunicator, ATicketNeverWaitedForIsAnError) {
  const auto errors = run_mailbox_ranks(2, [](Communicator& comm) {
    std::vector<float> x(4);
    { const Ticket ticket = comm.start_all_reduce_max(view_of(x), "dropped"); }
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("'dropped'"), HasSubstr("without a wait")));
}

}  // namespace
}  // namespace megalith::comm

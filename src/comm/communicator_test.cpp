// SPDX-License-Identifier: Apache-2.0
// Every collective against a closed form, on groups of 1 to 5 ranks (threads that share memory, and
// threads that only send messages) and sizes 0, 1, prime and divisible; wire bytes against their
// formulas.
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "comm/backends.h"
#include "comm/messages/mailbox_fixture.h"
#include "device/recorder.h"

namespace megalith::comm {
namespace {

template <typename T>
View view_of(std::vector<T>& x) {
  return {reinterpret_cast<std::byte*>(x.data()), kDTypeOf<T>, Shape{std::ssize(x)}};
}

using Values = std::vector<int64_t>;

/// Element i of rank r in call `salt`: distinct everywhere.
int64_t value_of(int rank, int64_t i, int64_t salt = 0) {
  return salt * 100'000'000 + rank * 1'000'000 + i;
}
Values values_of(int rank, int64_t n, int64_t salt = 0) {
  Values x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = value_of(rank, i, salt);
  return x;
}

constexpr int64_t kSizes[] = {0, 1, 2, 7, 12, 4099};

enum class Backend { threads, messages };

class Collective : public testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  void on_ranks(FunctionRef<void(Communicator&)> body) {
    const auto [backend, ranks] = GetParam();
    if (backend == Backend::threads) return run_ranks(ranks, body, {30});
    for (const std::string& error : run_mailbox_ranks(ranks, body)) EXPECT_EQ(error, "");
  }
};

TEST_P(Collective, AllGatherJoinsThePartsInRankOrder) {
  on_ranks([](Communicator& comm) {
    for (const int64_t n : kSizes) {
      const Part part = part_of(n, comm.rank(), comm.size());
      Values local(static_cast<size_t>(part.count)), all(static_cast<size_t>(n), -1);
      for (int64_t i = 0; i < part.count; ++i) local[static_cast<size_t>(i)] = part.begin + i;
      comm.wait(comm.start_all_gather(view_of(local), view_of(all), "parts"));
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
    }
  });
}

TEST_P(Collective, AllGatherInPlaceKeepsRows) {
  on_ranks([](Communicator& comm) {
    constexpr int64_t kRows = 11, kColumns = 3;
    Values all(kRows * kColumns, -1);
    const View whole = view_of(all).reshape({kRows, kColumns});
    const Part part = part_of(kRows, comm.rank(), comm.size());
    const View own = whole.rows(part.begin, part.count);
    for (int64_t i = 0; i < own.num_elements(); ++i)
      own.as<int64_t>()[i] = part.begin * kColumns + i;
    comm.wait(comm.start_all_gather(own, whole, "rows"));
    Values expected(all.size());
    std::iota(expected.begin(), expected.end(), 0);
    ASSERT_EQ(all, expected);
  });
}

TEST_P(Collective, AllToAllBringsOnePartFromEveryRank) {
  on_ranks([](Communicator& comm) {
    for (const int64_t n : kSizes) {
      Values x = values_of(comm.rank(), n);
      const Part part = part_of(n, comm.rank(), comm.size());
      Values y(static_cast<size_t>(comm.size() * part.count), -1);
      comm.wait(comm.start_all_to_all(view_of(x), view_of(y), "pieces"));
      for (int r = 0; r < comm.size(); ++r) {
        for (int64_t i = 0; i < part.count; ++i) {
          ASSERT_EQ(y[static_cast<size_t>(r * part.count + i)], value_of(r, part.begin + i));
        }
      }
    }
  });
}

TEST_P(Collective, BroadcastCopiesTheRootToAll) {
  on_ranks([](Communicator& comm) {
    for (const int64_t n : kSizes) {
      for (int root = 0; root < comm.size(); ++root) {
        Values x = values_of(comm.rank(), n);
        comm.wait(comm.start_broadcast(view_of(x), root, "from root"));
        ASSERT_EQ(x, values_of(root, n));
      }
    }
  });
}

TEST_P(Collective, AllReduceSumsAndMaximaOfIntegers) {
  on_ranks([](Communicator& comm) {
    const int64_t s = comm.size();
    for (const int64_t n : kSizes) {
      Values sum = values_of(comm.rank(), n), max = sum;
      comm.wait(comm.start_all_reduce_sum(view_of(sum), "sum"));
      comm.wait(comm.start_all_reduce_max(view_of(max), "max"));
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(sum[static_cast<size_t>(i)], s * (s - 1) / 2 * 1'000'000 + s * i);
        ASSERT_EQ(max[static_cast<size_t>(i)], value_of(comm.size() - 1, i));
      }
      std::vector<float> f32(static_cast<size_t>(n), static_cast<float>(comm.rank() + 1));
      comm.wait(comm.start_all_reduce_sum(view_of(f32), "sum of floats"));
      for (const float x : f32) ASSERT_EQ(x, static_cast<float>(s * (s + 1) / 2));
    }
  });
}

TEST_P(Collective, MaximumOfFloatsIsFreeOfOrder) {
  on_ranks([](Communicator& comm) {
    const bool first = comm.rank() == 0;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> x{first ? 0.0 : -0.0, first ? -0.0 : 0.0, first ? -nan : 1, first ? 1 : nan,
                          -static_cast<double>(comm.rank())};
    comm.wait(comm.start_all_reduce_max(view_of(x), "max"));
    const bool alone = comm.size() == 1;
    EXPECT_FALSE(std::signbit(x[0]));
    EXPECT_EQ(std::signbit(x[1]), alone);
    EXPECT_TRUE(std::isnan(x[2]));
    EXPECT_EQ(std::isnan(x[3]), !alone);
    EXPECT_EQ(x[4], 0);
  });
}

TEST_P(Collective, ManyInFlightMayBeWaitedForInAnyOrder) {
  on_ranks([](Communicator& comm) {
    constexpr int kCalls = 12;
    std::vector<Values> x;
    for (int k = 0; k < kCalls; ++k) x.push_back(values_of(comm.rank(), 50 + k, k));
    std::vector<Ticket> tickets;
    for (int k = 0; k < kCalls; ++k) {
      tickets.push_back(comm.start_broadcast(view_of(x[static_cast<size_t>(k)]), k % comm.size(),
                                             std::to_string(k)));
    }
    for (int i = 0; i < kCalls; ++i) {  // each rank in an order of its own
      const auto k = static_cast<size_t>((i * 5 + comm.rank()) % kCalls);
      comm.wait(std::move(tickets[k]));
      ASSERT_EQ(x[k], values_of(static_cast<int>(k) % comm.size(), std::ssize(x[k]),
                                static_cast<int64_t>(k)));
    }
  });
}

TEST_P(Collective, MessagesOfOneChannelKeepTheirOrder) {
  on_ranks([](Communicator& comm) {
    if (comm.size() == 1) return;
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    for (const int64_t n : kSizes) {
      std::vector<Values> out, in(4, Values(static_cast<size_t>(n)));
      for (int k = 0; k < 4; ++k) out.push_back(values_of(comm.rank(), n, k));
      std::vector<Ticket> tickets;
      // The two channels are received in the opposite order of sending.
      for (size_t k = 0; k < 4; ++k)
        tickets.push_back(comm.start_send(next, view_of(out[k]), "x", k < 2 ? 0 : 1));
      for (const size_t k : {2u, 3u, 0u, 1u})
        tickets.push_back(comm.start_receive(previous, view_of(in[k]), "x", k < 2 ? 0 : 1));
      for (Ticket& ticket : tickets) comm.wait(std::move(ticket));
      for (int k = 0; k < 4; ++k) ASSERT_EQ(in[static_cast<size_t>(k)], values_of(previous, n, k));
    }
  });
}

// A send completes as soon as the receive has started, although its rank waits for something else.
TEST_P(Collective, AWaitNeedsOnlyThatThePeerHasStarted) {
  on_ranks([](Communicator& comm) {
    if (comm.size() == 1) return;
    Values first{7}, second{0};
    if (comm.rank() == 0) {
      comm.wait(comm.start_send(1, view_of(first), "first"));
      second = {8};
      comm.wait(comm.start_send(1, view_of(second), "second"));
    } else if (comm.rank() == 1) {
      first = {0};
      Ticket early = comm.start_receive(0, view_of(first), "first");
      comm.wait(comm.start_receive(0, view_of(second), "second"));
      comm.wait(std::move(early));
      EXPECT_EQ(first, Values{7});
      EXPECT_EQ(second, Values{8});
    }
  });
}

TEST_P(Collective, BarrierHoldsBackUntilTheLast) {
  std::atomic<int> arrived{0};
  on_ranks([&](Communicator& comm) {
    for (int i = 1; i <= 50; ++i) {
      arrived.fetch_add(1);
      comm.barrier("all here");
      EXPECT_GE(arrived.load(), i * comm.size());
    }
  });
}

TEST_P(Collective, ExchangeKeepsLengthsAndOrder) {
  on_ranks([](Communicator& comm) {
    const auto text = [](int r) {
      return r == 1 ? "" : std::string(static_cast<size_t>(r * 3), 'a');
    };
    const auto all = comm.exchange(text(comm.rank()), "texts");
    ASSERT_EQ(std::ssize(all), comm.size());
    for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(all[static_cast<size_t>(r)], text(r));
    const std::vector<double> mine(static_cast<size_t>(comm.rank()), 0.5 * comm.rank());
    const auto numbers = comm.exchange_values(std::span(mine), "numbers");
    std::vector<double> expected;
    for (int r = 0; r < comm.size(); ++r)
      expected.insert(expected.end(), static_cast<size_t>(r), 0.5 * r);
    EXPECT_EQ(numbers, expected);
  });
}

TEST_P(Collective, SplitsNestAndReorder) {
  on_ranks([](Communicator& world) {
    std::vector<Membership> halves;  // even and odd ranks, in falling order
    for (int r = 0; r < world.size(); ++r) halves.push_back({r % 2, -r});
    const auto half = world.split(halves, "half");
    const int in_half = (world.size() + 1 - world.rank() % 2) / 2;
    ASSERT_EQ(half->size(), in_half);
    ASSERT_EQ(half->rank(), in_half - 1 - world.rank() / 2);
    const std::vector<int64_t> mine{world.rank()};
    const auto members = half->exchange_values(std::span(mine), "members");
    for (int r = 0; r < in_half; ++r) {
      EXPECT_EQ(members[static_cast<size_t>(r)], world.rank() % 2 + 2 * (in_half - 1 - r));
    }
    std::vector<Membership> alone;
    for (int r = 0; r < half->size(); ++r) alone.push_back({r, 0});
    const auto single = half->split(alone, "single");
    EXPECT_EQ(single->size(), 1);
    Values from{3, 4}, to(2);
    single->wait(single->start_all_gather(view_of(from), view_of(to), "own"));
    EXPECT_EQ(to, from);
    // The groups are independent of the world they came from.
    if (world.rank() % 2 == 0) half->barrier("even ranks only");
    world.barrier("all");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collective,
                         testing::Combine(testing::Values(Backend::threads, Backend::messages),
                                          testing::Range(1, 6)),
                         [](const auto& test) {
                           const std::string kind =
                               std::get<0>(test.param) == Backend::threads ? "Threads" : "Messages";
                           return kind + std::to_string(std::get<1>(test.param));
                         });

TEST(SelfCommunicator, CopiesWhereACallMovesData) {
  auto device = device::make_cpu_device(1);
  const auto comm = make_self_communicator(*device);
  Values x{1, 2, 3}, y(3), z(3);
  comm->wait(comm->start_all_gather(view_of(x), view_of(y), "gather"));
  comm->wait(comm->start_all_to_all(view_of(x), view_of(z), "to all"));
  EXPECT_EQ(y, x);
  EXPECT_EQ(z, x);
  comm->wait(comm->start_all_reduce_sum(view_of(y), "sum"));
  EXPECT_EQ(y, x);
  EXPECT_EQ(comm->exchange("a", "text"), std::vector<std::string>{"a"});
  comm->barrier("alone");
}

TEST(TracedCommunicator, CountsTheFormulasOfRanksThatDoNotExist) {
  auto device = device::make_trace_device({});
  device::Recorder recorder;
  const auto world = make_traced_communicator(*device, 5, 8);
  device->set_recorder(&recorder);
  std::vector<Membership> pairs;
  for (int r = 0; r < 8; ++r) pairs.push_back({r / 4, r});
  const auto four = world->split(pairs, "four");
  EXPECT_EQ(four->rank(), 1);
  EXPECT_EQ(four->size(), 4);
  const auto on_device = [&](int64_t rows) {
    return device->arena(device::MemoryClass::workspace).tensor(DType::f32, Shape{rows, 5});
  };
  const auto own = on_device(3), all = on_device(12), pieces = on_device(12);
  const int64_t bytes = 12 * 5 * 4;
  const auto sent = [&] {
    const int64_t wire = recorder.total().bytes_wire;
    recorder.clear();
    return wire;
  };
  four->wait(four->start_all_gather(own, all, "gather"));
  EXPECT_EQ(sent(), 3 * bytes / 4);
  four->wait(four->start_all_to_all(all, pieces, "pieces"));
  EXPECT_EQ(sent(), 3 * bytes / 4);
  four->wait(four->start_all_reduce_max(all, "max"));
  EXPECT_EQ(sent(), 2 * 3 * bytes / 4);
  four->wait(four->start_broadcast(all, 1, "from me"));
  EXPECT_EQ(sent(), 3 * bytes);
  four->wait(four->start_broadcast(all, 0, "from another"));
  EXPECT_EQ(sent(), 0);
  four->wait(four->start_send(0, all, "activation"));
  EXPECT_EQ(sent(), bytes);
  four->wait(four->start_receive(0, all, "activation"));
  EXPECT_EQ(sent(), 0);
}

// What threads count is what a trace of each rank counts, parts of unequal size included.
TEST(Recording, ThreadsAndTraceCountTheSame) {
  run_ranks(3, [](Communicator& comm) {
    auto device = device::make_cpu_device(1);
    auto traced_device = device::make_trace_device({});
    device::Recorder recorder, traced_recorder;
    device->set_recorder(&recorder);
    traced_device->set_recorder(&traced_recorder);
    comm.set_device(device.get());
    const auto traced = make_traced_communicator(*traced_device, comm.rank(), comm.size());
    Values x = values_of(comm.rank(), 11);
    const Part part = part_of(11, comm.rank(), 3);
    Values pieces(static_cast<size_t>(3 * part.count));
    for (Communicator* const c : {&comm, traced.get()}) {
      c->wait(c->start_all_to_all(view_of(x), view_of(pieces), "pieces"));
      c->wait(c->start_all_gather(view_of(x).rows(part.begin, part.count), view_of(x), "x"));
      c->wait(c->start_all_reduce_sum(view_of(x), "sum"));
    }
    comm.exchange("host data is not counted", "text");
    EXPECT_EQ(recorder.total().bytes_wire, traced_recorder.total().bytes_wire);
    EXPECT_EQ(recorder.records().size(), 6u);  // three calls and their waits
    comm.set_device(nullptr);
  });
}

}  // namespace
}  // namespace megalith::comm

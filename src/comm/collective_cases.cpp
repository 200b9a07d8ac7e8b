// SPDX-License-Identifier: Apache-2.0
#include "comm/collective_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace megalith::comm {
namespace {

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

void all_gather_joins_the_parts_in_rank_order(Communicator& comm) {
  for (const int64_t n : kSizes) {
    const Part part = part_of(n, comm.rank(), comm.size());
    Values local(static_cast<size_t>(part.count)), all(static_cast<size_t>(n), -1);
    for (int64_t i = 0; i < part.count; ++i) local[static_cast<size_t>(i)] = part.begin + i;
    comm.wait(comm.start_all_gather(view_of(local), view_of(all), "parts"));
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
  }
}

void all_gather_in_place_keeps_rows(Communicator& comm) {
  constexpr int64_t kRows = 11, kColumns = 3;
  Values all(kRows * kColumns, -1);
  const View whole = view_of(all).reshape({kRows, kColumns});
  const Part part = part_of(kRows, comm.rank(), comm.size());
  const View own = whole.rows(part.begin, part.count);
  for (int64_t i = 0; i < own.num_elements(); ++i) own.as<int64_t>()[i] = part.begin * kColumns + i;
  comm.wait(comm.start_all_gather(own, whole, "rows"));
  Values expected(all.size());
  std::iota(expected.begin(), expected.end(), 0);
  ASSERT_EQ(all, expected);
}

void all_to_all_brings_one_part_from_every_rank(Communicator& comm) {
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
}

void broadcast_copies_the_root_to_all(Communicator& comm) {
  for (const int64_t n : kSizes) {
    for (int root = 0; root < comm.size(); ++root) {
      Values x = values_of(comm.rank(), n);
      comm.wait(comm.start_broadcast(view_of(x), root, "from root"));
      ASSERT_EQ(x, values_of(root, n));
    }
  }
}

void all_reduce_min_finds_the_smallest(Communicator& comm) {
  for (const int64_t n : kSizes) {
    std::vector<int32_t> x(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      x[static_cast<size_t>(i)] = i % comm.size() == comm.rank() ? -5 : comm.rank();
    comm.wait(comm.start_all_reduce_min(view_of(x), "flags"));
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[static_cast<size_t>(i)], -5);
  }
}

void all_reduce_sums_and_maxima_of_integers(Communicator& comm) {
  const int64_t s = comm.size();
  for (const int64_t n : kSizes) {
    Values sum = values_of(comm.rank(), n), max = sum;
    comm.wait(comm.start_all_reduce_sum(view_of(sum), "sum"));
    comm.wait(comm.start_all_reduce_max(view_of(max), "max"));
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(sum[static_cast<size_t>(i)], s * (s - 1) / 2 * 1'000'000 + s * i);
      ASSERT_EQ(max[static_cast<size_t>(i)], value_of(comm.size() - 1, i));
    }
  }
}

void maximum_of_floats_is_free_of_order(Communicator& comm) {
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
}

void many_in_flight_may_be_waited_for_in_any_order(Communicator& comm) {
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
}

void messages_of_one_channel_keep_their_order(Communicator& comm) {
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
}

// A send completes as soon as the receive has started, although its rank waits for something else.
void a_wait_needs_only_that_the_peer_has_started(Communicator& comm) {
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
}

// Each rank is late once. The clock is that of all processes of a machine.
void barrier_holds_back_until_the_last(Communicator& comm) {
  for (int late = 0; late < comm.size(); ++late) {
    if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const double before = monotonic_seconds();
    comm.barrier("all here");
    const double after = monotonic_seconds();
    const auto all_before = comm.exchange_values(std::span(&before, 1), "before");
    const auto all_after = comm.exchange_values(std::span(&after, 1), "after");
    ASSERT_GE(std::ranges::min(all_after), std::ranges::max(all_before)) << "rank " << late;
  }
}

void exchange_keeps_lengths_and_order(Communicator& comm) {
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
}

void splits_nest_and_reorder(Communicator& world) {
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
}

constexpr CollectiveCase kCases[] = {
    {"AllGatherJoinsThePartsInRankOrder", all_gather_joins_the_parts_in_rank_order},
    {"AllGatherInPlaceKeepsRows", all_gather_in_place_keeps_rows},
    {"AllToAllBringsOnePartFromEveryRank", all_to_all_brings_one_part_from_every_rank},
    {"BroadcastCopiesTheRootToAll", broadcast_copies_the_root_to_all},
    {"AllReduceMinFindsTheSmallest", all_reduce_min_finds_the_smallest},
    {"AllReduceSumsAndMaximaOfIntegers", all_reduce_sums_and_maxima_of_integers},
    {"MaximumOfFloatsIsFreeOfOrder", maximum_of_floats_is_free_of_order},
    {"ManyInFlightMayBeWaitedForInAnyOrder", many_in_flight_may_be_waited_for_in_any_order},
    {"MessagesOfOneChannelKeepTheirOrder", messages_of_one_channel_keep_their_order},
    {"AWaitNeedsOnlyThatThePeerHasStarted", a_wait_needs_only_that_the_peer_has_started},
    {"BarrierHoldsBackUntilTheLast", barrier_holds_back_until_the_last},
    {"ExchangeKeepsLengthsAndOrder", exchange_keeps_lengths_and_order},
    {"SplitsNestAndReorder", splits_nest_and_reorder},
};

}  // namespace

std::span<const CollectiveCase> collective_cases() { return kCases; }

}  // namespace megalith::comm

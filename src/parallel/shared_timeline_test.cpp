// SPDX-License-Identifier: Apache-2.0
#include "parallel/shared_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace megalith::parallel {
namespace {

/// Different on every stage, and by kind.
constexpr auto kSecondsOf = [](int stage, const Action& action) {
  return (1 + 0.25 * stage) * (action.kind == ActionKind::backward ? 2 : 1);
};

struct Case {
  ScheduleKind kind;
  int stages, micro_batches, chunks;
};
constexpr Case kCases[] = {{ScheduleKind::gpipe, 3, 5, 1},
                           {ScheduleKind::one_forward_one_backward, 4, 6, 1},
                           {ScheduleKind::one_forward_one_backward, 1, 3, 1},
                           {ScheduleKind::interleaved, 2, 4, 3},
                           {ScheduleKind::interleaved, 4, 8, 2}};

TEST(SharedTimeline, WithACoreForEachItIsTheTimeline) {
  for (const Case& c : kCases) {
    const auto schedule = make_schedule(c.kind, c.stages, c.micro_batches, c.chunks);
    const Timeline plain = simulate(schedule, kSecondsOf);
    const Timeline shared = simulate_shared(schedule, kSecondsOf, [](int) { return 1.0; });
    EXPECT_NEAR(shared.end, plain.end, 1e-9 * plain.end);
    ASSERT_EQ(shared.spans.size(), plain.spans.size());
    for (int stage = 0; stage < c.stages; ++stage)
      EXPECT_NEAR(shared.busy[static_cast<size_t>(stage)], plain.busy[static_cast<size_t>(stage)],
                  1e-9 * plain.end);
  }
}

/// One core is never idle, however stages wait for each other.
TEST(SharedTimeline, OneCoreTakesTheSumOfAllWork) {
  for (const Case& c : kCases) {
    const auto schedule = make_schedule(c.kind, c.stages, c.micro_batches, c.chunks);
    const Timeline plain = simulate(schedule, kSecondsOf);
    const double work = std::accumulate(plain.busy.begin(), plain.busy.end(), 0.0);
    const Timeline shared =
        simulate_shared(schedule, kSecondsOf, [](int stages) { return 1.0 / stages; });
    EXPECT_NEAR(shared.end, work, 1e-9 * work);
  }
}

/// Two cores: at least half of all work, at least what unshared stages take, at most one core's.
TEST(SharedTimeline, TwoCoresLieBetween) {
  for (const Case& c : kCases) {
    const auto schedule = make_schedule(c.kind, c.stages, c.micro_batches, c.chunks);
    const Timeline plain = simulate(schedule, kSecondsOf);
    const double work = std::accumulate(plain.busy.begin(), plain.busy.end(), 0.0);
    const Timeline shared = simulate_shared(schedule, kSecondsOf,
                                            [](int stages) { return std::min(1.0, 2.0 / stages); });
    EXPECT_GE(shared.end, std::max(plain.end, work / 2) * (1 - 1e-12));
    EXPECT_LE(shared.end, work * (1 + 1e-12));
  }
}

/// By hand: two stages, one micro-batch. Nothing ever overlaps, so sharing costs nothing.
TEST(SharedTimeline, StagesThatTakeTurnsShareNothing) {
  const auto schedule = make_schedule(ScheduleKind::one_forward_one_backward, 2, 1, 1);
  const Timeline shared =
      simulate_shared(schedule, kSecondsOf, [](int stages) { return 1.0 / stages; });
  EXPECT_DOUBLE_EQ(shared.end, 1 + 1.25 + 2.5 + 2);
}

}  // namespace
}  // namespace megalith::parallel

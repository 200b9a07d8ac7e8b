// SPDX-License-Identifier: Apache-2.0
// Schedules keep what the papers say of them, for all stages <= 16, micro-batches <= 64, chunks
// <= 4.
#include "parallel/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "parallel/timeline.h"

namespace megalith::parallel {
namespace {

using Schedule = std::vector<std::vector<Action>>;
constexpr ScheduleKind kAll = ScheduleKind::gpipe;
constexpr ScheduleKind kOne = ScheduleKind::one_forward_one_backward;
constexpr ScheduleKind kInterleaved = ScheduleKind::interleaved;

struct Case {
  ScheduleKind kind;
  int stages, micro_batches, chunks;
};

void for_all(FunctionRef<void(const Case&, const Schedule&)> body) {
  for (int p = 1; p <= 16; ++p) {
    for (int m = 1; m <= 64; ++m) {
      for (int v = 1; v <= 4; ++v) {
        for (const ScheduleKind kind : {kAll, kOne, kInterleaved}) {
          if (v > 1 && kind != kInterleaved) continue;
          const Case c{kind, p, m, v};
          body(c, make_schedule(kind, p, m, v));
          if (testing::Test::HasFailure()) {
            FAIL() << name_of(kind) << " p " << p << " m " << m << " v " << v;
          }
        }
      }
    }
  }
}

bool is_compute(const Action& a) {
  return a.kind == ActionKind::forward || a.kind == ActionKind::backward;
}

TEST(Schedule, EachMicroBatchOnceInOrderPerStageAndChunk) {
  for_all([](const Case& c, const Schedule& schedule) {
    ASSERT_EQ(std::ssize(schedule), c.stages);
    for (const auto& actions : schedule) {
      std::vector<int> forwards(static_cast<size_t>(c.chunks)), backwards = forwards;
      for (const Action& a : actions) {
        if (!is_compute(a)) continue;
        auto& done =
            (a.kind == ActionKind::forward ? forwards : backwards)[static_cast<size_t>(a.chunk)];
        ASSERT_EQ(a.micro_batch, done++);
        ASSERT_GE(forwards[static_cast<size_t>(a.chunk)], backwards[static_cast<size_t>(a.chunk)]);
      }
      for (int chunk = 0; chunk < c.chunks; ++chunk) {
        ASSERT_EQ(forwards[static_cast<size_t>(chunk)], c.micro_batches);
        ASSERT_EQ(backwards[static_cast<size_t>(chunk)], c.micro_batches);
      }
    }
  });
}

using Order = std::vector<std::pair<int, int>>;  // boundary, micro-batch

TEST(Schedule, SendsAndReceivesMatchInOrder) {
  for_all([](const Case& c, const Schedule& schedule) {
    // By sender, receiver and channel, in the order of starting.
    std::vector<Order> sends(16 * 16 * 2), receives(16 * 16 * 2);
    size_t transfers = 0;
    for (int stage = 0; stage < c.stages; ++stage) {
      for (const Action& a : schedule[static_cast<size_t>(stage)]) {
        const auto lane = [&](int from, int to, int channel) {
          return static_cast<size_t>((from * 16 + to) * 2 + channel);
        };
        const std::pair id(a.boundary, a.micro_batch);
        switch (a.kind) {
          case ActionKind::start_send_activation:
            sends[lane(stage, a.peer, 0)].push_back(id);
            break;
          case ActionKind::start_send_gradient:
            sends[lane(stage, a.peer, 1)].push_back(id);
            break;
          case ActionKind::start_receive_activation:
            receives[lane(a.peer, stage, 0)].push_back(id);
            break;
          case ActionKind::start_receive_gradient:
            receives[lane(a.peer, stage, 1)].push_back(id);
            break;
          default:
            break;
        }
      }
    }
    ASSERT_EQ(sends, receives);
    for (const Order& order : sends) transfers += order.size();
    // Every boundary between virtual stages is crossed once each way by every micro-batch.
    const int boundaries = c.stages == 1 ? 0 : c.stages * c.chunks - 1;
    ASSERT_EQ(transfers, static_cast<size_t>(2 * boundaries * c.micro_batches));
  });
}

TEST(Schedule, TransfersSurroundTheirComputation) {
  for_all([](const Case& c, const Schedule& schedule) {
    if (c.micro_batches > 9) return;  // longer ones repeat
    for (const auto& actions : schedule) {
      std::map<std::tuple<ActionKind, int, int>, size_t> at;
      for (size_t i = 0; i < actions.size(); ++i) {
        const Action& a = actions[i];
        const bool is_new = at.try_emplace({a.kind, a.micro_batch, a.chunk}, i).second;
        ASSERT_TRUE(is_new) << name_of(a.kind) << " twice";
      }
      const auto in_order = [&](const Action& a, std::initializer_list<ActionKind> kinds) {
        size_t last = 0;
        for (const ActionKind kind : kinds) {
          const auto found = at.find({kind, a.micro_batch, a.chunk});
          if (found == at.end() || found->second < last) return false;
          last = found->second;
        }
        return true;
      };
      using enum ActionKind;
      for (const Action& a : actions) {
        if (a.kind == start_receive_activation) {
          ASSERT_TRUE(in_order(a, {start_receive_activation, wait_receive_activation, forward}));
        } else if (a.kind == start_receive_gradient) {
          ASSERT_TRUE(in_order(a, {start_receive_gradient, wait_receive_gradient, backward}));
        } else if (a.kind == start_send_activation) {
          ASSERT_TRUE(in_order(a, {forward, start_send_activation, wait_send_activation}));
        } else if (a.kind == start_send_gradient) {
          ASSERT_TRUE(in_order(a, {backward, start_send_gradient, wait_send_gradient}));
        }
      }
    }
  });
}

TEST(Schedule, InFlightIsWhatThePapersSay) {
  for_all([](const Case& c, const Schedule& schedule) {
    for (int stage = 0; stage < c.stages; ++stage) {
      const int peak = peak_in_flight(schedule[static_cast<size_t>(stage)]);
      const int all = c.micro_batches * c.chunks;
      if (c.kind == kAll) {
        ASSERT_EQ(peak, all);
      } else if (c.chunks == 1) {
        ASSERT_EQ(peak, std::min(all, std::max(0, c.stages - stage)));
      } else {
        // Narayanan et al. 2021: warm-up plus one. A remainder joins a whole group.
        const int group = std::min(c.micro_batches, c.stages + c.micro_batches % c.stages);
        ASSERT_EQ(peak, std::min(all, 2 * (c.stages - 1 - stage) + (c.chunks - 1) * group + 1));
      }
    }
  });
}

/// Forward 1, backward 2, shared out over the chunks; scaled so that all times are whole numbers.
Timeline time_of(const Case& c, const Schedule& schedule) {
  return simulate(schedule, [&](int, const Action& a) {
    return (a.kind == ActionKind::forward ? 1.0 : 2.0) * 12 / c.chunks;
  });
}

TEST(Schedule, NeverHangsAndIdlesAsTheFormulaSays) {
  for_all([](const Case& c, const Schedule& schedule) {
    const Timeline timeline = time_of(c, schedule);
    const double ideal = 3.0 * 12 * c.micro_batches;
    for (const double busy : timeline.busy) ASSERT_EQ(busy, ideal);
    // (p - 1)/(v m) of the ideal time, to the last digit; more with chunks that m < p cannot fill.
    const double idle = (timeline.end - ideal) * c.chunks, formula = 3.0 * 12 * (c.stages - 1);
    if (c.chunks > 1 && c.micro_batches < c.stages) {
      ASSERT_GT(idle, formula);
    } else {
      ASSERT_EQ(idle, formula);
    }
  });
}

// Data flows forward through the virtual stages and back: no computation before what it needs.
TEST(Schedule, VirtualTimeRespectsDependencies) {
  for (const Case c :
       {Case{kAll, 4, 6, 1}, Case{kOne, 4, 6, 1}, Case{kOne, 3, 2, 1}, Case{kInterleaved, 2, 4, 3},
        Case{kInterleaved, 4, 8, 2}, Case{kInterleaved, 3, 7, 2}}) {
    const Timeline timeline =
        time_of(c, make_schedule(c.kind, c.stages, c.micro_batches, c.chunks));
    std::map<std::tuple<bool, int, int>, Span> spans;  // forward, virtual stage, micro-batch
    for (const Span& span : timeline.spans) {
      spans[{span.action.kind == ActionKind::forward, span.action.chunk * c.stages + span.stage,
             span.action.micro_batch}] = span;
    }
    const int virtual_stages = c.stages * c.chunks;
    ASSERT_EQ(std::ssize(spans), 2 * virtual_stages * c.micro_batches);
    for (int m = 0; m < c.micro_batches; ++m) {
      for (int k = 1; k < virtual_stages; ++k) {
        EXPECT_LE((spans[{true, k - 1, m}].end), (spans[{true, k, m}].begin));
        EXPECT_LE((spans[{false, k, m}].end), (spans[{false, k - 1, m}].begin));
      }
      EXPECT_LE((spans[{true, virtual_stages - 1, m}].end),
                (spans[{false, virtual_stages - 1, m}].begin));
    }
  }
}

TEST(Schedule, AHangIsReported) {
  Schedule schedule = make_schedule(kOne, 2, 1);
  // The first stage forgets to send.
  std::erase_if(schedule[0],
                [](const Action& a) { return a.kind == ActionKind::start_send_activation; });
  try {
    (void)simulate(schedule, [](int, const Action&) { return 1.0; });
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("stage 1 in wait_receive_activation of micro-batch 0"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace megalith::parallel

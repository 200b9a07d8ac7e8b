// SPDX-License-Identifier: Apache-2.0
// Sequences of several lines, and guesses of what comes.
#include <gtest/gtest.h>

#include "generate/scheduler_testing.h"

namespace megalith::generate {
namespace {

/// Lines share what they have in common, and one that goes on alone copies nothing.
TEST(Scheduler, LinesShareBlocks) {
  Simulation s({{}}, {64}, {.sequences = 8, .tokens = 512, .waiting = 8});
  Sequence& one = s.make(130, 300);
  one.width = 4;
  ASSERT_TRUE(s.scheduler.submit(one));
  const auto pass = [&](std::vector<size_t> parents) {
    const auto parts = s.scheduler.plan();
    EXPECT_EQ(parts.size(), one.num_lines());
    const size_t copies = s.store.take_copies().size();
    s.scheduler.advance();
    s.scheduler.branch(one, parents);
    for (size_t i = 0; i < parents.size(); ++i) one.line(i).ids.push_back(static_cast<int32_t>(i));
    s.store.check();
    return copies;
  };
  EXPECT_EQ(pass({0, 0, 0, 0}), 0U);
  EXPECT_EQ(s.store.in_use(0), 3);
  EXPECT_EQ(pass({0, 1, 2, 3}), 3U);  // one goes on in place
  EXPECT_EQ(s.store.in_use(0), 2 + 4);
  EXPECT_EQ(pass({3, 2, 1, 0}), 0U);
  EXPECT_EQ(pass({1, 1, 2}), 0U);
  EXPECT_EQ(s.store.in_use(0), 2 + 2);
  EXPECT_EQ(pass({0, 1, 2}), 1U);
  EXPECT_EQ(s.store.in_use(0), 2 + 3);
  s.scheduler.leave(one);
  EXPECT_EQ(s.store.in_use(0), 0);
}

/// Guesses get what nobody else needs of a pass, and those that were right are not read again.
TEST(Scheduler, GuessesGoBesideThoseThatWrite) {
  Simulation s({{}}, {64}, {.sequences = 4, .tokens = 8, .waiting = 8});
  Sequence& one = s.make(5, 300);
  ASSERT_TRUE(s.scheduler.submit(one));
  const auto write = [&](std::vector<int32_t> right, std::vector<int32_t> guesses) {
    const int64_t past = one.past;
    s.scheduler.advance();
    const auto count = std::ssize(right);
    one.ids.insert(one.ids.end(), right.begin(), right.end());
    one.ids.push_back(9);
    if (count > 0) s.scheduler.advance_proposed(one, count);
    one.proposed = std::move(guesses);
    return one.past - past;
  };
  EXPECT_EQ(s.scheduler.plan().front().count, 5);
  EXPECT_EQ(write({}, {1, 2, 3}), 5);
  EXPECT_EQ(s.scheduler.plan().front().count, 4);
  EXPECT_EQ(write({1, 2}, {4, 5, 6, 7, 8, 9, 10, 11}), 3);
  EXPECT_EQ(s.scheduler.plan().front().count, 8);
  EXPECT_EQ(write({}, {4, 5, 6, 7}), 1);
  Sequence& reader = s.make(50, 1, "b", 700);
  ASSERT_TRUE(s.scheduler.submit(reader));
  const auto& parts = s.scheduler.plan();
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].count, 1);  // the prompt takes what is left
  EXPECT_EQ(parts[1].count, 7);
}

}  // namespace
}  // namespace megalith::generate

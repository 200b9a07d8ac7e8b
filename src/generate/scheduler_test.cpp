// SPDX-License-Identifier: Apache-2.0
// The scheduler without a model, on a clock that counts passes: whatever comes and goes, every
// sequence ends, blocks are conserved, prompts do not hold up those that write, clients share.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "generate/scheduler_testing.h"

namespace megalith::generate {
namespace {

TEST(Scheduler, APromptIsReadInChunksBesideThoseThatWrite) {
  Simulation s({{}}, {100}, {.sequences = 8, .tokens = 64, .waiting = 8});
  Sequence& writer = s.make(10, 50);
  ASSERT_TRUE(s.scheduler.submit(writer));
  EXPECT_EQ(s.step(), 10);
  Sequence& reader = s.make(300, 1, "b", 500);
  ASSERT_TRUE(s.scheduler.submit(reader));
  for (int chunk = 0; chunk < 4; ++chunk) {
    const size_t before = writer.ids.size();
    EXPECT_EQ(s.step(), 64);
    EXPECT_EQ(writer.ids.size(), before + 1);
    EXPECT_EQ(reader.past, 63 * (chunk + 1));
  }
  EXPECT_EQ(s.step(), 1 + 300 - 4 * 63);
}

TEST(Scheduler, TheQueueIsBounded) {
  Simulation s({{}}, {100}, {.sequences = 1, .tokens = 64, .waiting = 2});
  EXPECT_TRUE(s.scheduler.submit(s.make(10, 5)));
  EXPECT_TRUE(s.scheduler.submit(s.make(10, 5)));
  Sequence& third = s.make(10, 5);
  EXPECT_FALSE(s.scheduler.submit(third));
  s.step();
  EXPECT_TRUE(s.scheduler.submit(third));
}

TEST(Scheduler, WithoutRoomTheLastGivesUpItsBlocksAndComesBackFirst) {
  Simulation s({{}}, {4}, {.sequences = 4, .tokens = 256, .waiting = 8}, false);
  Sequence& first = s.make(60, 100);
  Sequence& second = s.make(60, 100, "b");
  ASSERT_TRUE(s.scheduler.submit(first) && s.scheduler.submit(second));
  s.run(1000);
  EXPECT_EQ(first.preemptions, 0);
  EXPECT_GE(second.preemptions, 1);
  EXPECT_EQ(s.ended, (std::vector<Sequence*>{&first, &second}));
}

TEST(Scheduler, ASharedBeginningIsNotReadAgain) {
  Simulation s({{}}, {64}, {.sequences = 4, .tokens = 512, .waiting = 8});
  Sequence& first = s.make(300, 2);
  ASSERT_TRUE(s.scheduler.submit(first));
  s.run(100);
  EXPECT_EQ(s.store.in_use(0), 0);
  EXPECT_EQ(s.store.kept(0), 300 / kBlock);
  Sequence& second = s.make(300, 2);
  ASSERT_TRUE(s.scheduler.submit(second));
  EXPECT_EQ(s.step(), 300 - 256);
  EXPECT_EQ(second.found, 256);
  // Not its last token, even where all are known.
  Sequence& third = s.make(256, 2);
  ASSERT_TRUE(s.scheduler.submit(third));
  s.step();
  EXPECT_EQ(third.found, 192);
  // Nor what another adapter read.
  Sequence& fourth = s.make(300, 2);
  fourth.salt = 1;
  ASSERT_TRUE(s.scheduler.submit(fourth));
  s.step();
  EXPECT_EQ(fourth.found, 0);
}

TEST(Scheduler, LayersWithAWindowKeepTheirWindow) {
  constexpr int64_t kWindow = 100;
  Simulation s({{}, {kWindow, false}}, {40, 40}, {.sequences = 4, .tokens = 64, .waiting = 8});
  Sequence& one = s.make(2000, 200);
  ASSERT_TRUE(s.scheduler.submit(one));
  int64_t most = 0;
  while (s.step() > 0) most = std::max(most, s.store.in_use(1));
  EXPECT_EQ(s.ended.size(), 1U);
  EXPECT_LE(most,
            BlockStore::needed(std::vector<KvGroup>{{kWindow, false}}, {.positions = 2200}, 64)[0]);
  // A beginning is known where its window is.
  Sequence& again = s.make(2000, 2);
  ASSERT_TRUE(s.scheduler.submit(again));
  s.step();
  EXPECT_EQ(again.found, 1984);
}

TEST(Scheduler, ClientsAreServedAlike) {
  Simulation s({{}}, {200}, {.sequences = 1, .tokens = 128, .waiting = 100});
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(s.scheduler.submit(s.make(100, 5, "many", 1000 * i)));
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(s.scheduler.submit(s.make(100, 5, "few", 40000 + 1000 * i)));
  s.run(10000);
  // The three of the one are among the first six or seven.
  for (size_t i = 7; i < s.ended.size(); ++i) EXPECT_EQ(s.ended[i]->client, "many") << i;
}

TEST(Scheduler, OneWhoComesBackHasNoCredit) {
  Simulation s({{}}, {200}, {.sequences = 1, .tokens = 128, .waiting = 100});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(s.scheduler.submit(s.make(100, 5, "a", 1000 * i)));
  for (int i = 0; i < 30; ++i) s.step();
  const size_t before = s.ended.size();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(s.scheduler.submit(s.make(100, 5, "late", 50000 + 1000 * i)));
  while (s.ended.size() < before + 8) s.step();
  const auto late = std::count_if(s.ended.begin() + static_cast<ptrdiff_t>(before), s.ended.end(),
                                  [](const Sequence* one) { return one->client == "late"; });
  EXPECT_LE(late, 5);
  EXPECT_GE(late, 3);
}

/// Thousands of arrivals, cancellations and shortages of blocks.
TEST(Scheduler, EverythingEndsAndNothingIsLost) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const bool windowed = seed % 2 == 1;
    std::vector<KvGroup> groups{{}};
    if (windowed) groups.push_back({70, false});
    Simulation s(groups, std::vector<int64_t>(groups.size(), 12 + seed % 7),
                 {.sequences = 6, .tokens = 48 + seed, .waiting = 12}, seed % 3 != 0);
    s.has_guesses = seed % 5 == 1;
    size_t submitted = 0, left = 0, refused = 0;
    std::vector<Sequence*> here;
    while (s.now < 600) {
      if (random() % 3 == 0) {
        Sequence& one = s.make(1 + random() % 300, 1 + random() % 120,
                               std::string(1, static_cast<char>('a' + random() % 4)),
                               static_cast<int32_t>(random() % 3) * 1000);
        if (random() % 4 == 0) one.width = 1 + static_cast<int64_t>(random() % 4);
        if (!s.store.can_hold(Scheduler::size_of(one))) one.width = 1;
        if (s.scheduler.submit(one)) {
          here.push_back(&one);
          ++submitted;
        } else {
          ++refused;
        }
      }
      s.step();
      std::erase_if(here,
                    [](const Sequence* one) { return one->state == Sequence::State::outside; });
      if (!here.empty() && random() % 20 == 0) {
        Sequence* const gone = here[random() % here.size()];
        s.scheduler.leave(*gone);
        ++left;
        EXPECT_EQ(gone->state, Sequence::State::outside);
      }
      s.store.check();
    }
    s.run(20000);
    EXPECT_EQ(s.ended.size() + left, submitted);
    EXPECT_EQ(s.scheduler.running() + s.scheduler.waiting(), 0);
    for (size_t g = 0; g < groups.size(); ++g) EXPECT_EQ(s.store.in_use(g), 0);
    EXPECT_GT(submitted, 20U);
  }
}

}  // namespace
}  // namespace megalith::generate

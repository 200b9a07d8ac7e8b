// SPDX-License-Identifier: Apache-2.0
#include "serve/engine_loop.h"

#include <gtest/gtest.h>

#include "serve/toy_loop_testing.h"

namespace megalith::serve {
namespace {

using Kind = Event::Kind;

generate::Generated alone(const protocols::PreparedSequence& sequence) {
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(toy_spec(), *device, {.tensor_shards = 2});
  fill_toy(model, *device);
  return generate::generate(model.engine(), nullptr, sequence.prompt, sequence.options);
}

/// Every third token alone may come.
class EveryThird final : public generate::TokenConstraint {
 public:
  void mask(std::span<uint64_t> allowed) const override {
    for (size_t id = 0; id < allowed.size() * 64; ++id)
      if (id % 3 == 0 && id < static_cast<size_t>(toy_spec().vocab))
        allowed[id / 64] |= uint64_t{1} << (id % 64);
  }
  bool can_end() const override { return true; }
  void accept(int32_t id) override { EXPECT_EQ(id % 3, 0); }
  std::unique_ptr<generate::TokenConstraint> clone() const override {
    return std::make_unique<EveryThird>();
  }
};

/// Guesses that were right.
int64_t expect_texts_as_alone(const parallel::Layout& layout,
                              EngineLoop::Options options = toy_options(3, 30)) {
  int64_t right = 0;
  options.followers = layout.num_ranks() - 1;
  ToyLoop toy(options, layout);
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 6; ++i) {
    const auto ticket = toy.loop.submit({toy_sequence(i, 10 + i, 0), toy_sequence(i, 12, 0.9)},
                                        i % 2 == 0 ? "a" : "b");
    tickets.push_back(ticket.value());
  }
  for (int i = 0; i < 6; ++i) {
    const protocols::PreparedSequence asked[] = {toy_sequence(i, 10 + i, 0),
                                                 toy_sequence(i, 12, 0.9)};
    for (size_t s = 0; s < 2; ++s) {
      const Event event = toy.inbox.wait(tickets[static_cast<size_t>(i)], Kind::ended, s);
      const generate::Generated expected = alone(asked[s]);
      EXPECT_EQ(event.written.result.ids, expected.ids);
      EXPECT_EQ(event.written.result.logprobs, expected.logprobs);
      EXPECT_EQ(event.written.result.top_logprobs, expected.top_logprobs);
      right += event.written.result.speculated.right;
    }
  }
  return right;
}

TEST(EngineLoop, WritesWhatGenerateWritesAlone) { expect_texts_as_alone({}); }
TEST(EngineLoop, WritesTheSameOnSeveralRanks) {
  expect_texts_as_alone({.tensor = 2, .pipeline = 2});
}

TEST(EngineLoop, WritesTheSameWithGuesses) {
  for (const parallel::Layout& layout : {parallel::Layout{}, {.tensor = 2, .pipeline = 2}}) {
    EngineLoop::Options looks = toy_options(3, 30), drafts = looks;
    looks.lookup = 3;
    expect_texts_as_alone(layout, looks);
    drafts.draft = 3;
    drafts.generator.draft_blocks = drafts.generator.blocks;
    EXPECT_GT(expect_texts_as_alone(layout, drafts), 12 * 5);  // it is as good as its model
  }
}

TEST(EngineLoop, SearchesAsGenerateDoes) {
  ToyLoop toy(toy_options(4, 4));
  protocols::PreparedSequence search = toy_sequence(1, 8, 0);
  search.options.beams = 3;
  search.options.best = 2;
  search.options.length_penalty = 0.5;
  const auto ticket = toy.loop.submit({search, toy_sequence(2, 8, 0)}, "a");
  const generate::Generated expected = alone(search);
  const generate::Generated result = toy.inbox.wait(*ticket, Kind::ended).written.result;
  EXPECT_EQ(result.ids, expected.ids);
  EXPECT_EQ(result.logprobs, expected.logprobs);
  ASSERT_EQ(result.others.size(), 1u);
  EXPECT_EQ(result.others[0].ids, expected.others.at(0).ids);
  EXPECT_EQ(toy.inbox.wait(*ticket, Kind::ended, 1).written.result.ids,
            alone(toy_sequence(2, 8, 0)).ids);
  search.options.beams = 5;
  const auto wide = toy.loop.submit({search}, "a");
  EXPECT_NE(toy.inbox.wait(*wide, Kind::refused).message.find("5 beams"), std::string::npos);
}

// Which tells nothing before it has ended: a text beside it says when passes are made.
TEST(EngineLoop, ACancelledSearchFreesItsBlocksBeforeTheNextPass) {
  ToyLoop toy(toy_options(4, 4));
  protocols::PreparedSequence search = toy_sequence(1, 100, 0);
  search.options.beams = 3;
  int64_t with_search = 0, without = 0;
  toy.between_passes = [&](const std::vector<Event>& events) {
    const int64_t held = toy.loop.state().blocks_in_use;
    if (with_search == 0) {
      with_search = held;
      toy.loop.cancel(1);
    } else if (without == 0 && events.at(0).kind == Kind::token) {
      without = held;
    }
  };
  const auto ticket = toy.loop.submit({search, toy_sequence(2, 100, 0)}, "a");
  ASSERT_EQ(*ticket, 1u);
  toy.inbox.wait(*ticket, Kind::token, 1);
  const auto next = toy.loop.submit({toy_sequence(3, 4, 0)}, "a");
  toy.inbox.wait(*next, Kind::ended);
  EXPECT_GT(with_search, without);
  EXPECT_GT(without, 0);
  EXPECT_EQ(toy.inbox.count(*ticket), 1u);  // one token of the text beside it
  EXPECT_EQ(toy.loop.state().blocks_in_use, 0);
  EXPECT_EQ(toy.loop.state().running, 0);
}

TEST(EngineLoop, CountsWhatItDoes) {
  ToyLoop toy(toy_options(2, 2));
  protocols::PreparedSequence long_one = toy_sequence(1, 3, 0);
  for (int i = 20; i < 100; ++i) long_one.prompt.push_back(i % 50);
  for (int i = 0; i < 2; ++i) {
    const auto ticket = toy.loop.submit({long_one}, "a");
    const generate::Generated result = toy.inbox.wait(*ticket, Kind::ended).written.result;
    EXPECT_GT(result.prompt_seconds, 0);
    EXPECT_GT(result.decode_seconds, 0);
    EXPECT_GT(result.queue_seconds, 0);
  }
  const EngineState state = toy.loop.state();
  EXPECT_EQ(state.prefix_queries, 200);
  EXPECT_EQ(state.prefix_hits, 64);  // the one whole block that comes again
  // 64 and 36 of the first text, 36 of the second, and two more tokens of each.
  EXPECT_NE(state.pass_tokens.text("p", "").find("p_sum{} 140\np_count{} 7\n"), std::string::npos)
      << state.pass_tokens.text("p", "");
}

void expect_texts_of_their_form(const parallel::Layout& layout) {
  EngineLoop::Options options = toy_options(3, 30);
  options.followers = layout.num_ranks() - 1;
  ToyLoop toy(options, layout);
  protocols::PreparedSequence held = toy_sequence(1, 12, 0.9);
  held.allowed = std::make_shared<EveryThird>();
  const auto ticket = toy.loop.submit({held, toy_sequence(1, 12, 0.9), held}, "a");
  const auto ids = [&](size_t sequence) {
    return toy.inbox.wait(*ticket, Kind::ended, sequence).written.result.ids;
  };
  const std::vector<int32_t> first = ids(0);
  EXPECT_EQ(first.size(), 12u);
  for (const int32_t id : first) EXPECT_EQ(id % 3, 0);
  EXPECT_EQ(ids(2), first);
  EXPECT_EQ(ids(1), alone(toy_sequence(1, 12, 0.9)).ids);
  EXPECT_NE(ids(1), first);
}

TEST(EngineLoop, HoldsATextToItsForm) { expect_texts_of_their_form({}); }
TEST(EngineLoop, HoldsATextToItsFormOnSeveralRanks) {
  expect_texts_of_their_form({.tensor = 2, .pipeline = 2});
}

TEST(EngineLoop, TellsOfEachToken) {
  ToyLoop toy(toy_options(2, 2));
  const auto ticket = toy.loop.submit({toy_sequence(1, 5, 0)}, "a");
  const Event end = toy.inbox.wait(*ticket, Kind::ended);
  EXPECT_EQ(end.written.result.ids.size(), 5u);
  EXPECT_EQ(toy.inbox.count(*ticket), 6u);
  const Event token = toy.inbox.wait(*ticket, Kind::token);
  EXPECT_EQ(token.token.alternatives.size(), 2u);
}

TEST(EngineLoop, TakesNoMoreThanRunAndWait) {
  EngineLoop loop(toy_options(2, 3));  // nobody leads it
  const auto three = [] { return std::vector(3, toy_sequence(1, 5, 0)); };
  EXPECT_EQ(loop.most_sequences(), 5);
  const auto first = loop.submit(three(), "a");
  ASSERT_TRUE(first);
  EXPECT_FALSE(loop.submit(three(), "b"));
  EXPECT_TRUE(loop.submit({toy_sequence(1, 5, 0), toy_sequence(2, 5, 0)}, "b"));
  EXPECT_FALSE(loop.submit({toy_sequence(1, 5, 0)}, "b"));
  loop.cancel(*first);
  EXPECT_TRUE(loop.submit(three(), "b"));
  EXPECT_EQ(loop.state().waiting, 5);
  loop.stop();
  EXPECT_FALSE(loop.submit({toy_sequence(1, 5, 0)}, "b"));
}

TEST(EngineLoop, PlacesOfWhatHasEndedAreFree) {
  ToyLoop toy(toy_options(1, 0));
  for (int i = 0; i < 3; ++i) {
    const auto ticket = toy.loop.submit({toy_sequence(i, 3, 0)}, "a");
    ASSERT_TRUE(ticket);
    toy.inbox.wait(*ticket, Kind::ended);
  }
}

TEST(EngineLoop, ACancelledRequestFreesItsBlocksBeforeTheNextPass) {
  ToyLoop toy(toy_options(2, 2));
  // Between two passes, so that it cannot have ended by itself.
  int64_t held = 0;
  toy.between_passes = [&](const std::vector<Event>& events) {
    if (held > 0) return;
    held = toy.loop.state().blocks_in_use;
    toy.loop.cancel(events.at(0).ticket);
  };
  const auto ticket = toy.loop.submit({toy_sequence(1, 100, 0), toy_sequence(2, 100, 0)}, "a");
  toy.inbox.wait(*ticket, Kind::token);
  const auto next = toy.loop.submit({toy_sequence(3, 2, 0)}, "a");
  toy.inbox.wait(*next, Kind::ended);
  EXPECT_GT(held, 0);
  EXPECT_EQ(toy.inbox.count(*ticket), 2u);  // one token of each text
  const EngineState state = toy.loop.state();
  EXPECT_EQ(state.running, 0);
  EXPECT_EQ(state.blocks_in_use, 0);
}

TEST(EngineLoop, WhatMakesNoSenseIsRefusedAndTheOthersGoOn) {
  ToyLoop toy(toy_options(2, 6));
  protocols::PreparedSequence wrong = toy_sequence(1, 5, 0);
  wrong.prompt[3] = 1'000'000;
  const auto bad = toy.loop.submit({toy_sequence(1, 5, 0), wrong}, "a");
  const auto good = toy.loop.submit({toy_sequence(1, 5, 0)}, "a");
  EXPECT_NE(toy.inbox.wait(*bad, Kind::refused).message.find("1000000"), std::string::npos);
  EXPECT_EQ(toy.inbox.wait(*good, Kind::ended).written.result.ids.size(), 5u);
  EXPECT_EQ(toy.inbox.count(*bad), 1u);
  EXPECT_TRUE(toy.loop.submit(std::vector(8, toy_sequence(1, 1, 0)), "a"));  // all places
}

TEST(EngineLoop, LetsThoseThatFollowGoWhereNobodyLeads) {
  EngineLoop::Options options = toy_options(2, 2);
  options.followers = 1;
  EngineLoop loop(options);
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    inference::InferenceModel model(toy_spec(), *device, world,
                                    {.tensor_shards = 2, .layout = {.tensor = 2}});
    fill_toy(model, *device);
    if (world.rank() == 0) return loop.end_followers();
    loop.follow(0, model.engine(), nullptr);
  });
  EXPECT_FALSE(loop.submit({toy_sequence(1, 1, 0)}, "a"));
}

TEST(EngineLoop, ReadsTextsBetweenPasses) {
  ToyLoop toy(toy_options(2, 2));
  const auto ticket = toy.loop.submit_reading({{{1, 2, 3}, {}}, {{4, 5}, {}}});
  const Event event = toy.inbox.wait(*ticket, Kind::vectors);
  ASSERT_EQ(event.vectors.size(), 2u);
  EXPECT_EQ(event.vectors[0].size(), static_cast<size_t>(toy_spec().hidden));
  EXPECT_NE(event.vectors[0], event.vectors[1]);
}

}  // namespace
}  // namespace megalith::serve

// SPDX-License-Identifier: Apache-2.0
// Adapters come and go while texts are written: the loop on one rank and on several.
#include "serve/adapters.h"

#include <gtest/gtest.h>

#include <atomic>

#include "layers/virtual_tokens.h"
#include "serve/toy_adapter_testing.h"

namespace megalith::serve {
namespace {

using Kind = Event::Kind;

generate::Generated alone_with(uint64_t seed, const protocols::PreparedSequence& sequence) {
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(toy_spec(), *device, {.tensor_shards = 2});
  fill_toy(model, *device);
  const std::shared_ptr<const layers::Adapter> adapter =
      toy_adapter_of(seed, model.parameters(), *device);
  model.engine().model().set_adapter(seed == 0 ? nullptr : adapter.get());
  return generate::generate(model.engine(), nullptr, sequence.prompt, sequence.options);
}

/// The same prompt under each, so that blocks that were kept would be found; with the rows of an
/// adapter that stand inside it.
protocols::PreparedSequence long_sequence(double temperature, uint64_t seed) {
  protocols::PreparedSequence sequence = toy_sequence(1, 10, temperature);
  sequence.prompt.resize(80, 7);
  const std::vector<int32_t> rows = layers::virtual_ids(toy_spec().vocab, toy_rows_in_text(seed));
  sequence.prompt.insert(sequence.prompt.begin() + 30, rows.begin(), rows.end());
  return sequence;
}

void expect_texts_as_alone(const parallel::Layout& layout) {
  EngineLoop::Options options = toy_options(6, 30);
  options.followers = layout.num_ranks() - 1;
  ToyLoop toy(options, layout);
  std::atomic<int> alive = 0;
  toy.loop.load("one", toy_place(1, &alive));
  toy.loop.load("two", toy_place(2, &alive));
  toy.loop.load("marked", toy_place(4, &alive));
  toy.loop.load("shorter", toy_place(7, &alive));
  // Those with rows of their own, of different counts, beside each other in a pass.
  const std::pair<const char*, uint64_t> names[] = {
      {"", 0}, {"one", 1}, {"two", 2}, {"marked", 4}, {"shorter", 7}};
  const auto sequence_of = [&](size_t i) {
    return long_sequence(i < 5 ? 0 : 0.9, names[i % 5].second);
  };
  std::vector<uint64_t> tickets;
  for (size_t i = 0; i < 10; ++i)
    tickets.push_back(toy.loop.submit({sequence_of(i)}, "a", names[i % 5].first).value());
  for (size_t i = 0; i < 10; ++i) {
    const Event event = toy.inbox.wait(tickets[i], Kind::ended);
    const generate::Generated expected = alone_with(names[i % 5].second, sequence_of(i));
    EXPECT_EQ(event.written.result.ids, expected.ids) << i;
    EXPECT_EQ(event.written.result.logprobs, expected.logprobs) << i;
  }
  EXPECT_EQ(alive, 4 * layout.num_ranks());
  const uint64_t number = toy.loop.unload("one");
  EXPECT_NE(toy.loop.adapter_state("one"), AdapterState::ready);
  toy.inbox.wait(number, Kind::left);
  EXPECT_EQ(toy.loop.adapter_state("one"), AdapterState::absent);
  // Other weights under the name: nothing that was kept is taken for theirs.
  toy.loop.load("one", toy_place(3, &alive));
  const protocols::PreparedSequence again = long_sequence(0, 3);
  const uint64_t ticket = toy.loop.submit({again}, "a", "one").value();
  EXPECT_EQ(toy.inbox.wait(ticket, Kind::ended).written.result.logprobs,
            alone_with(3, again).logprobs);
  EXPECT_EQ(alive, 4 * layout.num_ranks());
}

TEST(LoadedAdapters, WriteWhatEachWritesAlone) { expect_texts_as_alone({}); }
TEST(LoadedAdapters, WriteTheSameOnSeveralRanks) {
  expect_texts_as_alone({.tensor = 2, .pipeline = 2});
}

TEST(LoadedAdapters, KnowBeginningsWithTheirRowsInside) {
  ToyLoop toy(toy_options(2, 2));
  toy.loop.load("marked", toy_place(4));
  toy.loop.load("other", toy_place(5));
  const protocols::PreparedSequence sequence = long_sequence(0, 4);
  const auto write = [&](const char* name, uint64_t seed, int64_t found) {
    const int64_t before = toy.loop.state().prefix_hits;
    const auto ticket = toy.loop.submit({sequence}, "a", name);
    EXPECT_EQ(toy.inbox.wait(*ticket, Kind::ended).written.result.logprobs,
              alone_with(seed, sequence).logprobs)
        << name;
    EXPECT_EQ(toy.loop.state().prefix_hits - before, found) << name;
  };
  write("marked", 4, 0);
  write("other", 5, 0);
  write("marked", 4, generate::BlockStore::kBlock);
  toy.inbox.wait(toy.loop.unload("marked"), Kind::left);
  toy.loop.load("marked", toy_place(6));
  write("marked", 6, 0);
}

TEST(LoadedAdapters, HaveNoRowsOfOneAnother) {
  ToyLoop toy(toy_options(2, 2));
  toy.loop.load("one", toy_place(1));
  toy.loop.load("two", toy_place(2));
  toy.loop.load("marked", toy_place(4));
  toy.loop.load("shorter", toy_place(7));
  protocols::PreparedSequence sequence = long_sequence(0, 4);
  for (const char* const name : {"", "one", "two", "shorter"}) {
    const auto ticket = toy.loop.submit({sequence}, "a", name);
    EXPECT_NE(toy.inbox.wait(*ticket, Kind::refused).message.find("outside the vocabulary"),
              std::string::npos)
        << name;
  }
  sequence.prompt.back() = static_cast<int32_t>(toy_spec().vocab + testing::kToyVirtualTokens);
  const auto ticket = toy.loop.submit({sequence}, "a", "marked");
  EXPECT_NE(toy.inbox.wait(*ticket, Kind::refused).message.find("outside the vocabulary"),
            std::string::npos);
}

TEST(LoadedAdapters, StayUntilTheirRequestsHaveEnded) {
  ToyLoop toy(toy_options(2, 2));
  std::atomic<int> alive = 0;
  uint64_t number = 0;
  bool left_early = false, ended = false;
  toy.between_passes = [&](const std::vector<Event>& events) {
    for (const Event& event : events) {
      ended |= event.kind == Kind::ended;
      if (event.kind == Kind::token && number == 0) number = toy.loop.unload("one");
    }
    if (!ended && number != 0) left_early |= alive == 0;
  };
  toy.loop.load("one", toy_place(1, &alive));
  const auto ticket = toy.loop.submit({toy_sequence(1, 30, 0)}, "a", "one");
  EXPECT_EQ(toy.inbox.wait(*ticket, Kind::ended).written.result.ids.size(), 30u);
  toy.inbox.wait(number, Kind::left);
  EXPECT_FALSE(left_early);
  EXPECT_EQ(alive, 0);
  // One that nobody uses leaves at once, though no pass is made.
  toy.loop.load("one", toy_place(1, &alive));
  toy.inbox.wait(toy.loop.unload("one"), Kind::left);
  EXPECT_EQ(alive, 0);
}

TEST(LoadedAdapters, ReadTextsToo) {
  ToyLoop toy(toy_options(2, 2));
  toy.loop.load("one", toy_place(1));
  const std::vector<inference::Reading> readings = {{{1, 2, 3}, {}}};
  const auto vectors = [&](const std::string& adapter) {
    const auto ticket = toy.loop.submit_reading(readings, adapter);
    return toy.inbox.wait(*ticket, Kind::vectors).vectors;
  };
  const auto without = vectors("");
  EXPECT_NE(vectors("one"), without);
  EXPECT_EQ(vectors(""), without);
}

TEST(LoadedAdapters, RowsBehindVirtualTokensAreRefusedAndChangeNothing) {
  ToyLoop toy(toy_options(2, 2));
  toy.loop.load("two", toy_place(2));
  const std::vector<inference::Reading> readings = {{{1, 2, 3}, {}}};
  const auto without =
      toy.inbox.wait(*toy.loop.submit_reading(readings, ""), Kind::vectors).vectors;
  const Event refused = toy.inbox.wait(*toy.loop.submit_reading(readings, "two"), Kind::refused);
  EXPECT_NE(refused.message.find("virtual tokens stand before or in texts"), std::string::npos);
  EXPECT_EQ(toy.inbox.wait(*toy.loop.submit_reading(readings, ""), Kind::vectors).vectors, without);
}

}  // namespace
}  // namespace megalith::serve

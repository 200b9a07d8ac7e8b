// SPDX-License-Identifier: Apache-2.0
#include "preferences/reference.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "comm/backends.h"
#include "testing/beside_products.h"
#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

/// Pairs of several lengths, more than fit into few samples.
std::vector<Preference> some_pairs(int64_t vocab) {
  std::vector<Preference> pairs;
  for (int32_t i = 0; i < 9; ++i) {
    const auto answer = [&](int32_t count, int32_t step) {
      Example made;
      for (int32_t t = 0; t < count; ++t) {
        made.ids.push_back(static_cast<int32_t>((t < 2 ? i + t : step * t + i) % vocab));
        made.learned.push_back(t < 2 ? 0 : 1);
      }
      return made;
    };
    pairs.push_back({answer(4 + i % 3, 7), answer(3 + i % 4, 11)});
  }
  return pairs;
}

class ReferenceTest : public FileTest {
 protected:
  ReferenceTest() {
    settings_.ragged = true;
    settings_.preferences.emplace();
    settings_.model.dropout = 0;
    file_ = std::filesystem::path(put("beside", "")).parent_path() / "reference.json";
  }
  PreferenceSource source(uint64_t seed = 1) const {
    return {some_pairs(settings_.model.vocab),
            {.sequence_length = settings_.sequence_length(),
             .vocab_size = settings_.model.vocab,
             .seed = seed}};
  }
  Reference of(const PreferenceSource& pairs, const std::string& weights = "weights") const {
    return {recipe_, weights, pairs, nullptr, file_};
  }
  /// Of the weights from the seed.
  std::vector<float> made(const engine::Settings& settings, const PreferenceSource& pairs) const {
    comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
      const auto device = device::make_cpu_device(1);
      world.set_device(device.get());
      const parallel::Mesh mesh(world, settings.layout);
      engine::Engine engine(settings, *device, mesh);
      engine.initialise();
      EXPECT_TRUE(of(pairs).make(engine, [] { return false; }));
      world.set_device(nullptr);
    });
    return pairs.reference().values();
  }
  bool takes(const PreferenceSource& pairs, const std::string& weights = "weights") const {
    const auto device = device::make_cpu_device(1);
    const auto world = comm::make_self_communicator(*device);
    return of(pairs, weights).take_kept(*world);
  }

  engine::Settings settings_ = testing::toy_settings();
  config::Recipe recipe_;
  std::filesystem::path file_;
};

/// The first step finds what the reference says: no margin at all, and the loss of a coin.
TEST_F(ReferenceTest, IsToTheBitWhatTheFirstStepFinds) {
  for (const bool factors : {false, true}) {
    engine::Settings settings = factors ? testing::with_factors(settings_) : settings_;
    settings.batch.full = 4;
    const PreferenceSource pairs = source();
    testing::OneRank one(settings);
    ASSERT_TRUE(of(pairs).make(one.engine, [] { return false; }));
    std::vector<data::HostBatch> batches(2);
    pairs.fill(0, 2, batches[0]);
    pairs.fill(2, 2, batches[1]);
    const double weight = batches[0].total_weight + batches[1].total_weight;
    const engine::StepResult first = one.engine.step(1, 0.01, batches, weight);
    EXPECT_EQ(first.loss, static_cast<double>(std::log(2.0f)));
    EXPECT_EQ(first.told[0], 0);
    EXPECT_EQ(first.told[1], 0);
    EXPECT_EQ(first.told[2], 0);
    EXPECT_GT(first.grad_norm, 0);
    EXPECT_NE(one.engine.step(2, 0.01, batches, weight).told[2], 0);
  }
}

TEST_F(ReferenceTest, NoLayoutOrderOrMicroBatchChangesIt) {
  const PreferenceSource serial = source();
  const std::vector<float> expected = made(settings_, serial);
  EXPECT_EQ(std::ssize(expected), 2 * serial.num_pairs());
  EXPECT_TRUE(std::ranges::all_of(expected, [](float x) { return x < 0; }));
  for (const parallel::Layout& layout :
       {parallel::Layout{.tensor = 2}, parallel::Layout{.pipeline = 3}, parallel::Layout{.data = 2},
        parallel::Layout{.tensor = 2, .pipeline = 3, .data = 2, .sequence = true}}) {
    engine::Settings other = settings_;
    other.layout = layout;
    other.micro_batch = 1;
    const PreferenceSource shuffled = source(7);
    EXPECT_EQ(made(other, shuffled), expected);
  }
}

TEST_F(ReferenceTest, IsKeptForTheSameWeightsPairsAndArithmetic) {
  const PreferenceSource first = source();
  EXPECT_FALSE(takes(first));
  const std::vector<float> expected = made(settings_, first);
  const PreferenceSource second = source();
  EXPECT_TRUE(takes(second));
  EXPECT_EQ(second.reference().values(), expected);
  const PreferenceSource third = source();
  EXPECT_FALSE(takes(third, "other weights"));
  recipe_.precision.compute = config::Compute::bf16;
  EXPECT_FALSE(takes(third));
  recipe_.precision.compute = config::Compute::f32;
  recipe_.optimizer.lr = 1;  // has no part in it
  EXPECT_TRUE(takes(third));
  auto pairs = some_pairs(settings_.model.vocab);
  pairs.back().chosen.ids.back() += 1;
  const PreferenceSource changed(
      pairs, {.sequence_length = settings_.sequence_length(), .vocab_size = settings_.model.vocab});
  EXPECT_FALSE(takes(changed));
  EXPECT_TRUE(changed.reference().values().empty());
}

TEST_F(ReferenceTest, IsMadeAgainWhereItIsDamaged) {
  made(settings_, source());
  const std::string whole = read_file(file_);
  const PreferenceSource reader = source();
  // The digits behind those of f32 might say the same.
  for (const size_t at : {size_t{0}, whole.find("sha256") + 12, whole.find("[[") + 3}) {
    std::string damaged = whole;
    damaged[at] = damaged[at] == '1' ? '2' : '1';
    write_file_durable(file_, damaged);
    EXPECT_FALSE(takes(reader)) << at;
    write_file_durable(file_, whole.substr(0, at));
    EXPECT_FALSE(takes(reader)) << at;
  }
  write_file_durable(file_, whole);
  EXPECT_TRUE(takes(reader));
}

TEST_F(ReferenceTest, StopsWhenItIsTold) {
  const PreferenceSource stopped = source();
  testing::OneRank one(settings_);
  int asked = 0;
  EXPECT_FALSE(of(stopped).make(one.engine, [&] { return ++asked == 2; }));
  EXPECT_TRUE(stopped.reference().values().empty());
  EXPECT_FALSE(std::filesystem::exists(file_));
}

}  // namespace
}  // namespace megalith::tune

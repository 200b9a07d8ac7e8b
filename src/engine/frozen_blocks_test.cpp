// SPDX-License-Identifier: Apache-2.0
// Weights in blocks beside which something trains: a run is that of the numbers that the blocks
// stand for, to the bit, and no layout changes it. They take their bytes and nothing else.
#include "engine/state.h"
#include "testing/beside_products.h"

namespace megalith::engine {
namespace {

using testing::OneRank;
using testing::SerialRun;
using testing::with_bottlenecks;
using testing::with_factors;
using testing::with_magnitudes;
using testing::with_prompt;
using testing::with_vectors;

constexpr double kRate = 0.02;

/// How weights are held, and in which types they stand for numbers and are multiplied.
struct Held {
  const char* name;
  bool llama;
  Format format;
  DType weights, activations;
};
constexpr Held kHeld[] = {{"q8_0", false, Format::q8_0, DType::f32, DType::f32},
                          {"llama q4_0, bf16", true, Format::q4_0, DType::bf16, DType::bf16},
                          {"llama q4_1, bf16 in f32", true, Format::q4_1, DType::bf16, DType::f32},
                          {"q4_0, f32 in bf16", false, Format::q4_0, DType::f32, DType::bf16}};

Settings in_blocks(const Held& held) {
  Settings settings = testing::toy_wide_settings(held.llama);
  settings.weights = held.weights;
  settings.activations = held.activations;
  settings.ragged = held.llama;
  settings.formats = testing::toy_formats(settings.model, held.format);
  return settings;
}

struct Method {
  const char* name;
  Settings (*with)(Settings settings);
};
constexpr Method kMethods[] = {
    {"factors", [](Settings s) { return with_factors(std::move(s)); }},
    {"dropout", [](Settings s) { return with_factors(std::move(s), 0.2); }},
    {"magnitudes", [](Settings s) { return with_magnitudes(std::move(s)); }},
    {"bottlenecks", [](Settings s) { return with_bottlenecks(std::move(s)); }},
    {"vectors", [](Settings s) { return with_vectors(std::move(s)); }},
    {"prompt", [](Settings s) { return with_prompt(std::move(s)); }}};

/// All that trains, as it lies in memory.
std::map<std::string, std::vector<float>> trained(OneRank& rank) {
  std::map<std::string, std::vector<float>> all;
  for (const parameters::Parameter& parameter : rank.engine.parameters().all()) {
    if (!parameter.trainable()) continue;
    const auto* const values = parameter.master().as<float>();
    all[parameter.name()].assign(values, values + parameter.local_elements());
  }
  return all;
}

TEST(FrozenBlocks, AreTheRunOfTheirNumbers) {
  for (const Held& held : kHeld) {
    for (const Method& method : kMethods) {
      const std::string what = std::string(held.name) + ", " + method.name;
      const Settings settings = method.with(in_blocks(held));
      Settings plain = settings;
      plain.formats.clear();
      OneRank blocks(settings), numbers(plain);
      size_t counted = 0;
      for (const parameters::Parameter& parameter : blocks.engine.parameters().all()) {
        if (is_plain(parameter.format())) continue;
        ++counted;
        EXPECT_EQ(parameter.widens_to(), held.weights) << parameter.name();
        parameters::ParameterSet& set = numbers.engine.parameters();
        set.load(*numbers.device, *set.find(parameter.name()), DType::f32,
                 testing::numbers_of(parameter.compute()).data());
        numbers.device->wait(numbers.device->last());
      }
      EXPECT_EQ(counted, settings.formats.size()) << what;
      const auto begun = trained(blocks);
      const std::vector<double> losses = blocks.train(4, kRate);
      EXPECT_EQ(losses, numbers.train(4, kRate)) << what;
      EXPECT_NE(losses[0], losses[3]) << what;
      EXPECT_EQ(trained(blocks), trained(numbers)) << what;
      EXPECT_NE(trained(blocks), begun) << what;
    }
  }
}

void expect_same_under(const parallel::Layout& layout, int zero = 0) {
  for (const Held& held : kHeld) {
    for (const Method& method : kMethods) {
      if (layout.sequence && method.name == std::string_view("dropout")) continue;  // refused
      const Settings settings = method.with(in_blocks(held));
      Settings other = settings;
      other.layout = layout;
      other.zero = zero;
      EXPECT_EQ(SerialRun(settings, 2).difference(other), "") << held.name << ", " << method.name;
    }
  }
}

TEST(FrozenBlocks, NoLayoutChangesABit) {
  expect_same_under({.tensor = 4});
  expect_same_under({.tensor = 2, .sequence = true});
  expect_same_under({.pipeline = 3, .data = 2}, 1);
}

TEST(FrozenBlocks, NorDoRecomputationThreadsAndMicroBatches) {
  for (const Held& held : kHeld) {
    for (const auto mode : {layers::Recompute::selective, layers::Recompute::full}) {
      const Settings settings = with_factors(in_blocks(held));
      Settings other = settings;
      other.recompute.mode = mode;
      other.micro_batch = 1;
      EXPECT_EQ(SerialRun(settings, 2).difference(other, {.threads = 2}), "") << held.name;
    }
  }
}

TEST(FrozenBlocks, TakeTheirBytesAndNothingElse) {
  const Settings settings = with_factors(in_blocks(kHeld[1]));
  OneRank rank(settings);
  rank.train(1, kRate);
  int64_t blocks = 0, others = 0;
  const auto aligned = [](int64_t elements) { return (elements + 63) / 64 * 64; };
  for (const parameters::Parameter& parameter : rank.engine.parameters().all()) {
    const int64_t bytes = parameter.compute().view.bytes();
    if (is_plain(parameter.format())) {
      others += aligned(parameter.local_elements()) * bytes_of(DType::f32);  // at most
      continue;
    }
    // Groups of 16 rows, 18 bytes for 32 columns of each.
    EXPECT_EQ(bytes, (parameter.shape()[0] + 15) / 16 * 16 * parameter.shape()[1] / 32 * 18);
    blocks += aligned(bytes);
    EXPECT_TRUE(parameter.compute_is_master());
    EXPECT_TRUE(parameter.gradient().absent());
    EXPECT_EQ(parameter.owned().count, 0);
  }
  const int64_t weights = rank.device->arena(device::MemoryClass::weights).in_use();
  EXPECT_GE(weights, blocks);
  EXPECT_LE(weights, blocks + others);
  for (const StateTensor& tensor : state_list(rank.engine))
    EXPECT_TRUE(rank.engine.parameters().all()[tensor.parameter].trainable()) << tensor.name;
}

}  // namespace
}  // namespace megalith::engine

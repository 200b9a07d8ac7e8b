// SPDX-License-Identifier: Apache-2.0
#include "tune/example_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "comm/backends.h"
#include "testing/toy_run.h"

namespace megalith::tune {
namespace {

using data::HostBatch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Example example(std::vector<int32_t> ids, size_t prompt) {
  Example made{std::move(ids), {}};
  made.learned.assign(made.ids.size(), 1);
  std::fill_n(made.learned.begin(), prompt, 0);
  return made;
}
HostBatch filled(const ExampleSource& source, int64_t first, int64_t count) {
  HostBatch batch;
  source.fill(first, count, batch);
  return batch;
}

TEST(ExampleSource, PacksWholeExamplesAndFillsTheRest) {
  const ExampleSource source({example({1, 2, 3, 4}, 2), example({5, 6, 7}, 1)},
                             {.sequence_length = 8, .vocab_size = 10, .shuffle = false});
  EXPECT_EQ(source.samples_per_epoch(), 1);
  EXPECT_EQ(source.num_tokens(), 5);
  EXPECT_EQ(source.num_learned(), 4);
  EXPECT_EQ(source.most_learned(), 4);
  const HostBatch batch = filled(source, 3, 1);
  EXPECT_THAT(batch.ids_T, ElementsAre(1, 2, 3, 5, 6, 0, 0, 0));
  EXPECT_THAT(batch.targets_T, ElementsAre(2, 3, 4, 6, 7, -1, -1, -1));
  EXPECT_THAT(batch.loss_weight_T, ElementsAre(0, 1, 1, 1, 1, 0, 0, 0));
  EXPECT_THAT(batch.position_T, ElementsAre(0, 1, 2, 0, 1, 0, 1, 2));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 3, 5, 8));
  EXPECT_THAT(batch.sequence_sample, ElementsAre(3, 3, 3));
  EXPECT_EQ(batch.total_weight, 4);
}

Example two_sides(std::vector<int32_t> read, std::vector<int32_t> ids) {
  Example made = example(std::move(ids), 1);
  made.read = std::move(read);
  return made;
}

TEST(ExampleSource, PacksBothSidesOfAnEncoderDecoder) {
  const ExampleSource source(
      {two_sides({1, 2, 3}, {0, 4, 9}), two_sides({5, 9}, {0, 6, 7, 9}), two_sides({8}, {0, 9})},
      {.sequence_length = 6, .vocab_size = 10, .shuffle = false, .encoder_length = 5});
  EXPECT_EQ(source.samples_per_epoch(), 2);
  EXPECT_EQ(source.num_tokens(), 6);
  EXPECT_EQ(source.num_read(), 6);
  EXPECT_EQ(source.num_learned(), 6);
  EXPECT_EQ(source.encoder_length(), 5);
  HostBatch batch;
  for (int again = 0; again < 2; ++again) source.fill(4, 2, batch);  // overwrites
  EXPECT_THAT(batch.ids_T, ElementsAre(0, 4, 0, 6, 7, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.targets_T, ElementsAre(4, 9, 6, 7, 9, -1, 9, -1, -1, -1, -1, -1));
  EXPECT_THAT(batch.loss_weight_T, ElementsAre(1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.position_T, ElementsAre(0, 1, 0, 1, 2, 0, 0, 0, 1, 2, 3, 4));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 2, 5, 6, 7, 12));
  EXPECT_EQ(batch.total_weight, 6);
  // What fills the first sample has nothing to read.
  EXPECT_THAT(batch.encoder.ids_T, ElementsAre(1, 2, 3, 5, 9, 8, 0, 0, 0, 0));
  EXPECT_THAT(batch.encoder.position_T, ElementsAre(0, 1, 2, 0, 1, 0, 0, 1, 2, 3));
  EXPECT_THAT(batch.encoder.cu_seqlens, ElementsAre(0, 3, 5, 5, 6, 10));
  EXPECT_THAT(batch.encoder.sequence_sample, ElementsAre(4, 4, 4, 5, 5));
  EXPECT_EQ(batch.sequence_sample, batch.encoder.sequence_sample);
  EXPECT_EQ(batch.encoder.num_samples, 2);
  EXPECT_EQ(batch.encoder.first_sample, 4);
}

TEST(ExampleSource, SequencesAreOfTheirTasks) {
  std::vector<Example> examples = {example({1, 2, 3, 4}, 2), example({5, 6, 7}, 1),
                                   example({1, 2, 3, 4, 5, 6, 7}, 3), example({8, 9}, 1)};
  const auto of = std::make_shared<ExampleSource>(
      examples, ExampleSourceOptions{.sequence_length = 6, .vocab_size = 10, .shuffle = false});
  EXPECT_EQ(of->num_tasks(), 0);
  EXPECT_TRUE(filled(*of, 0, 2).sequence_task.empty());
  const int32_t tasks[] = {2, 0, 3, 2};
  for (size_t i = 0; i < 4; ++i) examples[i].task = tasks[i];
  const auto source = std::make_shared<ExampleSource>(
      examples, ExampleSourceOptions{
                    .sequence_length = 6, .vocab_size = 10, .shuffle = false, .num_tasks = 4});
  EXPECT_EQ(source->num_tasks(), 4);
  EXPECT_EQ(ReorderedSource(source, 1).num_tasks(), 4);
  ASSERT_EQ(source->samples_per_epoch(), 2);
  HostBatch batch;
  for (int again = 0; again < 2; ++again) source->fill(0, 2, batch);  // overwrites
  EXPECT_EQ(batch.ids_T, filled(*of, 0, 2).ids_T);
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 6, 9, 11, 12));
  EXPECT_THAT(batch.sequence_task, ElementsAre(3, 2, 0, 2));
  EXPECT_THAT(filled(*source, 1, 1).sequence_task, ElementsAre(2, 0, 2));
  EXPECT_THAT(source->examples_of_tasks(1), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(source->examples_of_tasks(2), ElementsAre(1, 0, 2, 1));
  // What fills a sample is of none.
  const ExampleSource alone({examples[0]},
                            {.sequence_length = 6, .vocab_size = 10, .num_tasks = 4});
  EXPECT_THAT(filled(alone, 0, 1).sequence_task, ElementsAre(2, -1));
  examples[0].task = -1;
  EXPECT_THROW(ExampleSource(examples, {.sequence_length = 6, .vocab_size = 10, .num_tasks = 4}),
               InternalError);
}

TEST(ExampleSource, TheFingerprintIsOfWhatIsReadToo) {
  const auto print = [](std::vector<int32_t> read) {
    return ExampleSource({two_sides(std::move(read), {0, 9})},
                         {.sequence_length = 6, .vocab_size = 10, .encoder_length = 5})
        .fingerprint({});
  };
  EXPECT_EQ(print({1, 2}), print({1, 2}));
  EXPECT_NE(print({1, 2}), print({1, 3}));
}

TEST(ExampleSource, AnEpochIsEverySampleOnceInAnOrderOfItsOwn) {
  std::vector<Example> examples;
  for (int32_t i = 0; i < 20; ++i) examples.push_back(example({i, i, i, i, i}, 1));
  const ExampleSource source(examples, {.sequence_length = 4, .vocab_size = 20, .seed = 1});
  ASSERT_EQ(source.samples_per_epoch(), 20);
  const auto order = [&](int64_t first) {
    std::vector<int32_t> ids;
    const HostBatch batch = filled(source, first, 20);
    for (size_t i = 0; i < 80; i += 4) ids.push_back(batch.ids_T[i]);
    return ids;
  };
  const auto one = order(0), two = order(20);
  EXPECT_NE(one, two);
  for (const auto& ids : {one, two})
    EXPECT_EQ(std::set<int32_t>(ids.begin(), ids.end()).size(), 20u);
  // A sample is a function of its number.
  EXPECT_EQ(filled(source, 25, 1).ids_T[0], two[5]);
}

TEST(ExampleSource, AnotherSeedIsAnotherOrderOfTheSameSamples) {
  std::vector<Example> examples;
  for (int32_t i = 0; i < 20; ++i) examples.push_back(example({i, i, i, i, i}, 1));
  const auto of = std::make_shared<const ExampleSource>(
      examples, ExampleSourceOptions{.sequence_length = 4, .vocab_size = 20, .seed = 1});
  const ExampleSource two(examples, {.sequence_length = 4, .vocab_size = 20, .seed = 2});
  const auto ids = [](const data::BatchSource& source) {
    HostBatch batch;
    source.fill(3, 20, batch);
    return batch.ids_T;
  };
  EXPECT_EQ(ids(ReorderedSource(of, 1)), ids(*of));
  EXPECT_EQ(ids(ReorderedSource(of, 2)), ids(two));
  EXPECT_NE(ids(*of), ids(two));
  EXPECT_EQ(ReorderedSource(of, 2).fingerprint({}), two.fingerprint({}));
}

TEST(ExampleSource, TheFingerprintIsOfEveryTokenAndWeight) {
  const auto print = [](std::vector<Example> examples) {
    return ExampleSource(examples, {.sequence_length = 8, .vocab_size = 10}).fingerprint({});
  };
  const auto base = print({example({1, 2, 3}, 1), example({4, 5}, 1)});
  EXPECT_EQ(base, print({example({1, 2, 3}, 1), example({4, 5}, 1)}));
  EXPECT_NE(base, print({example({1, 2, 6}, 1), example({4, 5}, 1)}));
  EXPECT_NE(base, print({example({1, 2, 3}, 2), example({4, 5}, 1)}));
  EXPECT_NE(print({example({1, 2, 3}, 0), example({4, 5, 6}, 0)}),
            print({example({1, 2}, 0), example({3, 4, 5, 6}, 0)}));
}

TEST(ExampleSource, IdsThatTheModelHasNotAreRefused) {
  try {
    ExampleSource({example({1, 10}, 1)}, {.sequence_length = 8, .vocab_size = 10});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("makes id 10, and the model has 10 tokens"));
  }
}

TEST(ExampleSource, IdsOfATextAreNoVirtualTokens) {
  const ExampleSourceOptions options{.sequence_length = 8, .vocab_size = 10, .virtual_tokens = 2};
  EXPECT_NO_THROW(ExampleSource({example({10, 11, 1, 2}, 3)}, options));
  try {
    ExampleSource({example({10, 11, 1, 2}, 3), example({10, 11, 1, 10}, 3)}, options);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("makes id 10, and the model has 10 tokens"));
  }
}

/// A model on one rank, and the losses and gradients of a step as numbers.
struct Result {
  std::vector<double> losses;  // of the weighted tokens, in order
  double norm = 0;
  std::map<std::string, std::vector<float>> weights;  // after the step
};
Result result_of(const engine::Settings& settings, std::span<const HostBatch> micro_batches) {
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  engine::Engine engine(settings, *device, mesh);
  engine.initialise();
  double weight = 0;
  std::vector<float> weights;
  for (const HostBatch& batch : micro_batches) {
    weight += batch.total_weight;
    weights.insert(weights.end(), batch.loss_weight_T.begin(), batch.loss_weight_T.end());
  }
  Result result;
  const std::vector<double> values = engine.replay(1, micro_batches, weight, [](auto, auto) {});
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] != 0) result.losses.push_back(values[i]);
  result.norm = engine.step(1, 0.01, micro_batches, weight).grad_norm;
  for (const auto& parameter : engine.parameters().all()) {
    const auto* data = parameter.master().as<float>();
    result.weights[parameter.name()].assign(data, data + parameter.local_elements());
  }
  return result;
}

/// Losses, the norm of the gradient and the weights behind a step are those of the examples alone,
/// one a sample, in the same order: neighbours and what fills a sample change no bit.
enum class Toy : uint8_t { gpt, llama, t5, t5_full_decoder };
engine::Settings settings_of(Toy toy) {
  if (toy == Toy::gpt) return testing::toy_settings();
  if (toy == Toy::llama) return testing::toy_llama_settings();
  engine::Settings settings = testing::toy_family_settings(models::kT5);
  // The examples of the test fill one side.
  settings.decoder_length = toy == Toy::t5 ? 16 : 12;
  return settings;
}
class PackedLoss : public ::testing::TestWithParam<Toy> {};

TEST_P(PackedLoss, IsThatOfTheExamplesAloneToTheBit) {
  engine::Settings settings = settings_of(GetParam());
  settings.ragged = true;
  settings.model.dropout = 0;
  settings.split = {1, 1};  // one shard: else token shards cut a sample in other places
  settings.micro_batch = 1;
  const bool reads = settings.model.is_encoder_decoder();
  const int64_t length = settings.loss_length(), vocab = settings.model.vocab;
  std::vector<Example> examples;
  for (int32_t i = 0; i < 3; ++i) {
    Example made = example({}, 0);
    for (int32_t t = 0; t < 4 + i; ++t)
      made.ids.push_back(static_cast<int32_t>((7 * t + 3 * i + 1) % vocab));
    made.learned.assign(made.ids.size(), 1);
    made.learned[0] = made.learned[1] = 0;
    const int32_t read = reads ? (i == 0 ? 6 : 5) - (GetParam() == Toy::t5 ? 0 : 1) : 0;
    for (int32_t t = 0; t < read; ++t)
      made.read.push_back(static_cast<int32_t>((5 * t + 2 * i + 3) % vocab));
    examples.push_back(made);
  }
  const auto source = [&](std::span<const Example> some) {
    return ExampleSource({some.begin(), some.end()},
                         {.sequence_length = length,
                          .vocab_size = vocab,
                          .shuffle = false,
                          .encoder_length = reads ? settings.sequence_length() : 0});
  };
  const ExampleSource together = source(examples);
  ASSERT_EQ(together.samples_per_epoch(), 1);
  settings.batch.full = 1;
  const std::vector<HostBatch> packed = {filled(together, 0, 1)};
  std::vector<HostBatch> alone;
  for (size_t i = 0; i < examples.size(); ++i)
    alone.push_back(filled(source(std::span(examples).subspan(i, 1)), 0, 1));
  const Result a = result_of(settings, packed);
  settings.batch.full = 3;
  const Result b = result_of(settings, alone);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.losses.size(), 3u + 3 + 3);
  EXPECT_EQ(a.norm, b.norm);
  EXPECT_EQ(a.weights, b.weights);
  // The head may compute the rows that are learned alone: the bits are the same.
  settings.batch.full = 1;
  settings.predicted_per_sample = together.most_learned();
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  const parallel::Mesh mesh(*world, settings.layout);
  engine::Engine engine(settings, *device, mesh);
  engine.initialise();
  EXPECT_EQ(engine.step(1, 0.01, packed, packed[0].total_weight).grad_norm, a.norm);
}

INSTANTIATE_TEST_SUITE_P(All, PackedLoss,
                         ::testing::Values(Toy::gpt, Toy::llama, Toy::t5, Toy::t5_full_decoder));

}  // namespace
}  // namespace megalith::tune

// SPDX-License-Identifier: Apache-2.0
// Virtual tokens that train before texts: the weights stay as they were, what a step computes is
// what an adapter of the same rows gives, and rows that are those of tokens are these tokens.
#include <gmock/gmock.h>

#include <cmath>

#include "engine/state.h"
#include "inference/inference_model.h"
#include "inference/sequence_reader.h"
#include "testing/beside_products.h"

namespace megalith::engine {
namespace {

using config::PromptEncoderKind;
using ::testing::Each;
using testing::expect_served_as_trained;
using ::testing::HasSubstr;
using testing::kEncoderRate;
using testing::kPromptRate;
using ::testing::Not;
using testing::OneRank;
using testing::with_encoder;
using testing::with_prompt;

using Ids = std::vector<int32_t>;

TEST(VirtualTokens, TheWeightsStayAndEveryRowMoves) {
  for (Settings settings : {testing::toy_settings(), testing::toy_llama_settings()}) {
    settings.model.dropout = 0;
    OneRank rank(with_prompt(settings));
    const auto before = rank.weights();
    std::vector<double> losses;
    const auto samples = testing::toy_micro_batches(rank.settings, 1, 0);  // the same in every step
    for (int step = 1; step <= 20; ++step)
      losses.push_back(
          rank.engine.step(step, kPromptRate, samples, testing::toy_weight(rank.settings, 1)).loss);
    EXPECT_LT(losses.back(), losses.front());
    for (const auto& [name, values] : rank.weights()) {
      if (name != prompts::kTableName) {
        EXPECT_EQ(values, before.at(name)) << name;
        continue;
      }
      EXPECT_EQ(values.size(), 3u * static_cast<size_t>(settings.model.hidden));
      for (size_t i = 0; i < values.size(); ++i) EXPECT_NE(values[i], before.at(name)[i]) << i;
    }
  }
}

/// After some steps, an adapter of the rows as they are.
void expect_served(const Settings& tuned, const Settings& settings) {
  OneRank trained(tuned), plain(settings);
  trained.train(2, tuned.schedule.peak);
  layers::Adapter adapter(
      plain.engine.parameters(), *plain.device,
      {{std::string(layers::kTokenTableName), layers::AdapterRank::of_virtual_tokens(3)}});
  for (auto& [weight, factors] : adapter.factors()) {
    const std::string table(prompts::kTableName);
    plain.device->copy(factors.virtual_PE, trained.engine.parameters().find(table)->compute());
  }
  expect_served_as_trained(trained, plain, adapter);
}

TEST(VirtualTokens, AStateHoldsTheirRowsAlone) {
  OneRank rank(with_prompt(testing::toy_settings()));
  for (const StateTensor& tensor : state_list(rank.engine))
    EXPECT_TRUE(tensor.name.ends_with(prompts::kTableName)) << tensor.name;
  EXPECT_EQ(state_list(rank.engine).size(), 3u);
}

/// What trains is the encoder; the rows follow from it, and are saved with it.
TEST(VirtualTokens, BehindAnEncoderFollowFromIt) {
  for (const auto kind : {PromptEncoderKind::mlp, PromptEncoderKind::lstm}) {
    Settings settings = testing::toy_llama_settings();
    settings.model.dropout = 0;
    OneRank rank(with_encoder(settings, kind));
    const auto before = rank.weights();
    const auto samples = testing::toy_micro_batches(rank.settings, 1, 0);  // the same in every step
    std::vector<double> losses;
    for (int step = 1; step <= 20; ++step)
      losses.push_back(
          rank.engine.step(step, kEncoderRate, samples, testing::toy_weight(rank.settings, 1))
              .loss);
    EXPECT_LT(losses.back(), losses.front());
    for (const auto& [name, values] : rank.weights())
      EXPECT_EQ(values != before.at(name), name.starts_with("prompt.")) << name;
    size_t rows = 0, trained = 0;
    for (const StateTensor& tensor : state_list(rank.engine)) {
      EXPECT_NE(tensor.name.find("prompt."), std::string::npos) << tensor.name;
      ++(tensor.name.ends_with(prompts::kTableName) ? rows : trained);
    }
    EXPECT_EQ(rows, 1u);  // nothing of an optimizer
    EXPECT_EQ(trained, kind == PromptEncoderKind::mlp ? 3 * 7u : 3 * (1 + 2 * 8 + 4u));
  }
}

/// Also before the first step.
TEST(VirtualTokens, BehindAnEncoderAreSavedAsTheyFollow) {
  OneRank rank(with_encoder(testing::toy_settings(), PromptEncoderKind::mlp));
  ShardedOptimizerState spread(rank.engine);
  const auto rows = [&] {
    for (const checkpoint::TensorSource& source : state_tensors(rank.engine, spread)) {
      const auto* const values = source.view.as<float>();
      if (source.name == prompts::kTableName)
        return std::vector<float>(values, values + source.view.num_elements());
    }
    return std::vector<float>();
  };
  const std::vector<float> saved = rows();
  ASSERT_EQ(saved.size(), 3u * static_cast<size_t>(rank.settings.model.hidden));
  EXPECT_THAT(saved, Not(Each(0.0f)));
  rank.engine.parameters().derive(rank.engine.model().exec());
  EXPECT_EQ(rank.weights().at(std::string(prompts::kTableName)), saved);
}

TEST(VirtualTokens, BehindAnEncoderAreReadAsTheyFollow) {
  const Settings settings = with_encoder(testing::toy_settings(), PromptEncoderKind::mlp);
  OneRank rank(settings), made(settings);
  made.engine.parameters().derive(made.engine.model().exec());
  const Ids text = {1, 5, 2, 9};
  EXPECT_EQ(inference::InferenceEngine(rank.engine.model()).score(text),
            inference::InferenceEngine(made.engine.model()).score(text));
}

/// A part of an encoder may stay; the rows move with the rest.
TEST(VirtualTokens, APartOfAnEncoderIsFrozen) {
  for (const char* const part : {"prompt.embedding.*", "prompt.*head*"}) {
    Settings settings = with_encoder(testing::toy_settings(), PromptEncoderKind::lstm);
    settings.frozen = {part};
    OneRank rank(settings);
    const auto before = rank.weights();
    rank.train(2, kEncoderRate);
    for (const auto& [name, values] : rank.weights()) {
      const bool moves = name.starts_with("prompt.") && !optim::matches(part, name);
      EXPECT_EQ(values != before.at(name), moves) << name;
    }
  }
}

TEST(VirtualTokens, AreTrainedAsTheyAreServed) {
  for (Settings settings : {testing::toy_settings(), testing::toy_llama_settings()}) {
    settings.model.dropout = 0;
    settings.layout = {};
    for (const bool is_encoded : {false, true}) {
      expect_served(
          is_encoded ? with_encoder(settings, PromptEncoderKind::lstm) : with_prompt(settings),
          settings);
    }
  }
}

models::ModelSpec spec_of(std::string_view family) {
  models::ModelSpec spec = testing::toy_family_settings(models::family_named(family, "test")).model;
  spec.dropout = 0;
  return spec;
}

Ids joined(const Ids& a, const Ids& b) {
  Ids both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

/// Positions, attention, windows, and what a text's probabilities are of.
TEST(VirtualTokens, WithTheRowsOfTokensAreTheseTokens) {
  const Ids before = {7, 3, 30, 3}, text = {1, 5, 2, 9, 3, 3, 8};
  for (const char* const family : {"gpt2", "llama", "gemma2", "phi3", "gpt_neox"}) {
    const auto device = device::make_cpu_device(1);
    inference::InferenceModel model(spec_of(family), *device, {});
    for (parameters::Parameter& parameter : model.parameters().all()) {
      std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
      parameters::initial_value(parameter, 3, DType::f32, values.data());
      device->wait(device->copy_to_device(parameter.mutable_compute(), values.data()));
    }
    inference::InferenceEngine& engine = model.engine();
    std::vector<double> expected = engine.score(joined(before, text));
    expected.erase(expected.begin(), expected.begin() + std::ssize(before));
    inference::KvCache plain = engine.make_cache(12);
    const std::vector<float> logits = engine.extend(plain, joined(before, text));
    const auto adapter =
        testing::prompt_of_tokens(model.spec(), model.parameters(), *device, before);
    engine.model().set_adapter(adapter.get());
    EXPECT_EQ(engine.context(), engine.spec().context - 4);
    EXPECT_EQ(engine.score(text), expected) << family;
    EXPECT_EQ(engine.score(Ids{5}), std::vector<double>());
    inference::KvCache cache = engine.make_cache(std::ssize(text));
    engine.extend(cache, std::span(text).first(2));
    EXPECT_EQ(cache.length(), 6);
    EXPECT_EQ(engine.extend(cache, std::span(text).subspan(2)), logits) << family;
    EXPECT_THROW(engine.extend(cache, Ids{1}), UserError);  // it is full
    auto begun = engine.begin(text, 1);
    EXPECT_EQ(engine.extend(begun.cache, begun.ids), logits) << family;
    EXPECT_EQ(begun.cache.capacity(), 12);
    engine.model().set_adapter(nullptr);
  }
}

/// Of an encoder-decoder those before what the encoder reads.
TEST(VirtualTokens, WithTheRowsOfTokensAnEncoderReadsTheseTokens) {
  const Ids before = {7, 3, 30, 3}, text = {1, 5, 2, 9, 3}, target = {4, 4, 8, 1};
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(spec_of("t5"), *device, {});
  for (parameters::Parameter& parameter : model.parameters().all()) {
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    parameters::initial_value(parameter, 3, DType::f32, values.data());
    device->wait(device->copy_to_device(parameter.mutable_compute(), values.data()));
  }
  inference::InferenceEngine& engine = model.engine();
  const std::vector<double> expected = engine.score_target(joined(before, text), target);
  auto whole = engine.begin(joined(before, text), 4);
  const std::vector<float> logits = engine.extend(whole.cache, whole.ids);
  const auto adapter = testing::prompt_of_tokens(model.spec(), model.parameters(), *device, before);
  engine.model().set_adapter(adapter.get());
  EXPECT_EQ(engine.score_target(text, target), expected);
  auto begun = engine.begin(text, 4);
  EXPECT_EQ(begun.ids, whole.ids);
  EXPECT_EQ(engine.extend(begun.cache, begun.ids), logits);
  EXPECT_EQ(begun.cache.capacity(), whole.cache.capacity());
  const auto context = static_cast<size_t>(engine.spec().context);
  EXPECT_EQ(engine.score_target(Ids(context - 4, 1), target).size(), target.size());
  EXPECT_THROW(engine.score_target(Ids(context - 3, 1), target), UserError);
  EXPECT_THROW(engine.begin(Ids(context - 3, 1), 1), UserError);
}

TEST(VirtualTokens, BeforeAnEncodersTextsAreTrainedAsTheyAreServed) {
  Settings settings = testing::toy_family_settings(models::kT5);
  settings.model.dropout = 0;
  const Settings tuned = with_prompt(settings);
  OneRank trained(tuned), plain(settings);
  const auto start = trained.weights();
  trained.train(2, tuned.schedule.peak);
  for (const auto& [name, values] : trained.weights())
    EXPECT_EQ(values != start.at(name), name == prompts::kTableName) << name;
  layers::Adapter adapter(
      plain.engine.parameters(), *plain.device,
      {{std::string(layers::kTokenTableName), layers::AdapterRank::of_virtual_tokens(3)}});
  const std::string table(prompts::kTableName);
  for (auto& [weight, factors] : adapter.factors())
    plain.device->copy(factors.virtual_PE, trained.engine.parameters().find(table)->compute());
  inference::InferenceEngine served(plain.engine.model()), learned(trained.engine.model());
  const Ids text = {1, 5, 2, 9, 3}, target = {4, 4, 8, 1};
  const std::vector<double> without = served.score_target(text, target);
  plain.engine.model().set_adapter(&adapter);
  EXPECT_EQ(served.score_target(text, target), learned.score_target(text, target));
  EXPECT_NE(served.score_target(text, target), without);
  plain.engine.model().set_adapter(nullptr);
}

TEST(VirtualTokens, TakeTheirPlaceOfTheContext) {
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(spec_of("llama"), *device, {});
  inference::InferenceEngine& engine = model.engine();
  const auto adapter = testing::toy_prompt_adapter(model.parameters(), *device, 1);
  engine.model().set_adapter(adapter.get());
  const auto fault = [&](size_t count) -> std::string {
    try {
      engine.score(Ids(count, 1));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  const auto context = static_cast<size_t>(engine.spec().context);
  EXPECT_EQ(fault(context - 5), "");
  EXPECT_THAT(fault(context - 4), HasSubstr("that are left of the model's context"));
  // What would be read of them is no text's.
  inference::SequenceReader reader(engine.model());
  const inference::Reading reading{{1, 2}, {}};
  EXPECT_THROW(reader.embed(std::span(&reading, 1), kernels::Pooling::mean), UserError);
}

/// Of pipeline stages those without the table, tied to the logits or not, know how many there are.
TEST(VirtualTokens, AreReadUnderEveryLayout) {
  for (const char* const family : {"gpt2", "llama"}) {
    std::vector<double> alone;
    for (const parallel::Layout& layout :
         {parallel::Layout{}, parallel::Layout{.tensor = 2}, parallel::Layout{.pipeline = 2},
          parallel::Layout{.tensor = 2, .pipeline = 2}}) {
      comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
        const auto device = device::make_cpu_device(1);
        inference::InferenceModel model(spec_of(family), *device, world,
                                        {.tensor_shards = 2, .layout = layout});
        for (parameters::Parameter& parameter : model.parameters().all()) {
          std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
          parameters::initial_value(parameter, 3, DType::f32, values.data());
          device->wait(device->copy_to_device(parameter.mutable_compute(), values.data()));
        }
        const auto adapter = testing::toy_prompt_adapter(model.parameters(), *device, 1);
        EXPECT_EQ(adapter->virtual_tokens(), 5);
        const Ids text = {1, 5, 2, 9, 3, 3, 8};
        const std::vector<double> without = model.engine().score(text);
        model.engine().model().set_adapter(adapter.get());
        const std::vector<double> scores = model.engine().score(text);
        EXPECT_NE(scores, without);
        if (layout.num_ranks() == 1)
          alone = scores;
        else
          EXPECT_EQ(scores, alone) << family;
      });
    }
  }
}

}  // namespace
}  // namespace megalith::engine

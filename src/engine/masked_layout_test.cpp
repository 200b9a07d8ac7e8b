// SPDX-License-Identifier: Apache-2.0
// The masked objective under every layout: an encoder trained on a corpus has the same losses,
// gradient norms, validation losses and state, to the bit, although its data ranks hold different
// numbers of predicted tokens.
#include <gtest/gtest.h>

#include "comm/backends.h"
#include "data/test_corpus.h"
#include "engine/data_loader.h"
#include "engine/validation.h"
#include "objectives/masked_source.h"
#include "objectives/pair_source.h"
#include "objectives/tokenizer_fixture.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::ToyRun;
using objectives::MaskedSource;

constexpr int kSteps = 4;
constexpr int64_t kValidationSamples = 7;  // not a multiple of what ranks or micro-batches take

struct MaskedRun {
  ToyRun run;
  std::vector<double> validation;  // before each step, and at the end
  std::vector<double> pairs;       // losses of sentence pairs in both
  double weight = 0;               // predicted tokens of all steps
};

class MaskedLayout : public ::testing::Test {
 protected:
  MaskedLayout() {
    std::vector<std::vector<int32_t>> documents;
    for (int32_t i = 0; i < 40; ++i) {
      documents.push_back(data::counting(i, static_cast<size_t>(3 + 7 * i % 40)));
      documents.back().push_back(objectives::kEnd);
    }
    data::write_corpus(folder_ / "corpus", documents);
    data::write_indexed(folder_ / "pairs", data::TokenType::u16, [&](data::IndexedWriter& writer) {
      for (const std::vector<int32_t>& document : documents) {
        for (size_t begin = 0; begin < document.size(); begin += 4)
          writer.add_sequence(
              std::span(document).subspan(begin, std::min<size_t>(4, document.size() - begin)));
        writer.end_document();
      }
    });
  }

  static Settings settings(const Settings& toy) {
    Settings settings = toy;
    settings.model.vocab = objectives::kVocabulary;
    settings.model.for_each_layer([](layers::LayerSpec& layer) { layer.attention.causal = false; });
    settings.ragged = true;
    settings.predicted_per_sample = objectives::most_predicted(0.15, settings.sequence_length());
    return settings;
  }
  static Settings serial() { return settings(megalith::testing::toy_settings()); }

  std::unique_ptr<data::BatchSource> source(const Settings& settings, objectives::Unit unit) const {
    data::SamplerOptions sampler;
    sampler.sequence_length = settings.sequence_length();
    sampler.vocab_size = settings.model.vocab;
    sampler.whole_documents = whole_documents_;
    const data::BatchOptions masks{objectives::kEnd, !whole_documents_, !whole_documents_};
    const objectives::MaskableTokens maskable(objectives::objectives_tokenizer(), unit);
    const std::vector<data::Corpus> corpora = {{folder_ / (pairs_ ? "pairs" : "corpus"), {}}};
    if (pairs_) {
      return std::make_unique<objectives::PairSource>(
          corpora, sampler, maskable,
          objectives::PairSourceOptions{
              *pairs_, {objectives::kPrefix, objectives::kSuffix}, {}, settings.seed});
    }
    return std::make_unique<MaskedSource>(corpora, sampler, masks, maskable,
                                          objectives::MaskingOptions{}, settings.seed);
  }

  void train(const Settings& settings, MaskedRun& out,
             objectives::Unit unit = objectives::Unit::token) const {
    check(settings, "toy settings");
    const std::unique_ptr<data::BatchSource> made = source(settings, unit);
    const data::BatchSource& source = *made;
    comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
      const auto device = device::make_cpu_device(1);
      world.set_device(device.get());
      const parallel::Mesh mesh(world, settings.layout);
      Engine engine(settings, *device, mesh);
      engine.initialise();
      DataLoader loader(source, settings, mesh.data(), 0);
      MaskedRun mine;
      const auto validate = [&] {
        const auto said = validation_loss(engine, source, kValidationSamples, [] { return false; });
        mine.validation.push_back(said->loss);
        if (said->pair_loss) mine.pairs.push_back(*said->pair_loss);
      };
      for (int64_t step = 1; step <= kSteps; ++step) {
        validate();
        DataLoader::Step data = loader.next();
        const StepResult result = engine.step(step, 1e-2, data.micro_batches, data.global_weight);
        EXPECT_TRUE(result.applied);
        mine.run.loss.push_back(result.loss);
        mine.run.grad_norm.push_back(result.grad_norm);
        if (result.pair_loss) mine.pairs.push_back(*result.pair_loss);
        mine.weight += data.global_weight;
      }
      validate();
      out.run.state.add(engine);
      if (world.rank() == 0) {
        out.run.loss = mine.run.loss;
        out.run.grad_norm = mine.run.grad_norm;
        out.validation = mine.validation;
        out.pairs = mine.pairs;
        out.weight = mine.weight;
      }
      world.set_device(nullptr);
    });
  }

  void expect_same(const Settings& one, const Settings& other,
                   objectives::Unit unit = objectives::Unit::token) const {
    MaskedRun a, b;
    train(one, a, unit);
    train(other, b, unit);
    ASSERT_TRUE(b.run.state.faults().empty()) << b.run.state.faults()[0];
    EXPECT_EQ(difference(a.run, b.run), "");
    EXPECT_EQ(a.validation, b.validation);
    EXPECT_EQ(a.weight, b.weight);
    EXPECT_EQ(a.pairs, b.pairs);
  }

  const data::TemporaryFolder folder_;
  bool whole_documents_ = false;
  std::optional<objectives::PairRelation> pairs_;
};

TEST_F(MaskedLayout, NoLayoutChangesABit) {
  const std::vector<parallel::Layout> layouts = {
      {.tensor = 2},
      {.tensor = 4},
      {.pipeline = 2},
      {.pipeline = 3},
      {.data = 2},
      {.tensor = 2, .sequence = true},
      {.tensor = 2, .pipeline = 2},
      {.tensor = 2, .data = 2, .sequence = true},
      {.pipeline = 2, .data = 2},
      {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}};
  for (const parallel::Layout& layout : layouts) {
    SCOPED_TRACE(fmt::format("tensor {}, pipeline {}, data {}", layout.tensor, layout.pipeline,
                             layout.data));
    Settings other = serial();
    other.layout = layout;
    other.zero = layout.data > 1 ? 1 : 0;
    expect_same(serial(), other);
  }
}

TEST_F(MaskedLayout, NorMicroBatchesRecomputationAndStorage) {
  Settings narrow = serial();
  narrow.weights = narrow.activations = DType::bf16;
  Settings half = serial();
  half.weights = half.activations = DType::f16;
  half.loss_scale = {.dynamic = false, .initial = 1024};
  for (const Settings& one : {serial(), narrow, half}) {
    for (const int64_t samples : {1, 4}) {
      Settings other = one;
      other.micro_batch = samples;
      other.recompute.mode = samples == 1 ? layers::Recompute::selective : layers::Recompute::full;
      other.layout = {.tensor = 2, .data = 2};
      expect_same(one, other, objectives::Unit::word);
    }
  }
}

TEST_F(MaskedLayout, RotaryWindowsAndGroupedKeys) {
  Settings one = settings(megalith::testing::toy_llama_settings());
  Settings other = one;
  other.layout = {.tensor = 2, .pipeline = 3, .data = 2, .sequence = true};
  expect_same(one, other);
}

TEST_F(MaskedLayout, SamplesOfWholeDocuments) {
  MaskedRun cut, whole;
  train(serial(), cut);
  whole_documents_ = true;
  train(serial(), whole);
  EXPECT_NE(cut.run.loss, whole.run.loss);
  Settings other = serial();
  other.micro_batch = 1;
  other.recompute.mode = layers::Recompute::full;
  for (const parallel::Layout& layout : std::vector<parallel::Layout>{
           {.tensor = 2, .data = 2, .sequence = true}, {.pipeline = 3, .data = 2}}) {
    other.layout = layout;
    expect_same(serial(), other);
  }
}

/// BERT with both heads.
Settings pair_settings() {
  Settings settings = megalith::testing::toy_family_settings(models::kBert);
  settings.model.vocab = objectives::kVocabulary;
  settings.model.head.kind = layers::HeadKind::pretraining;
  settings.ragged = true;
  settings.predicted_per_sample = objectives::most_predicted(0.15, settings.sequence_length());
  return settings;
}

TEST_F(MaskedLayout, SentencePairs) {
  for (const auto relation : {objectives::PairRelation::next, objectives::PairRelation::order}) {
    pairs_ = relation;
    for (const parallel::Layout& layout :
         std::vector<parallel::Layout>{{.tensor = 4},
                                       {.data = 2},
                                       {.tensor = 2, .data = 2, .sequence = true},
                                       {.tensor = 2, .pipeline = 3, .sequence = true}}) {
      Settings other = pair_settings();
      other.layout = layout;
      other.zero = layout.data > 1 ? 1 : 0;
      other.micro_batch = layout.tensor == 2 ? 1 : 4;
      other.recompute.mode = layers::Recompute::selective;
      expect_same(pair_settings(), other);
    }
    Settings narrow = pair_settings();
    narrow.weights = narrow.activations = DType::bf16;
    Settings other = narrow;
    other.layout = {.tensor = 2, .pipeline = 3, .data = 2, .sequence = true};
    other.micro_batch = 1;
    expect_same(narrow, other);
  }
}

// Of both means: a power of two that nothing narrower rounds.
TEST_F(MaskedLayout, ALossScaleMovesNoBit) {
  pairs_ = objectives::PairRelation::next;
  Settings one = pair_settings();
  one.loss_scale = {.dynamic = false, .initial = 1};
  Settings other = one;
  other.loss_scale->initial = 0x1p15f;
  expect_same(one, other);
}

// Each mean has a weight of its own: at first both are those of uniform distributions.
TEST_F(MaskedLayout, TheLossOfPairsIsAMeanOfItsOwn) {
  pairs_ = objectives::PairRelation::order;
  Settings settings = pair_settings();
  settings.model.dropout = 0;
  settings.model.init_std = 1e-4;
  settings.z_loss = 0;
  MaskedRun out;
  train(settings, out);
  ASSERT_EQ(out.pairs.size(), 2u * kSteps + 1);
  EXPECT_NEAR(out.pairs[0], std::log(2.0), 1e-3);
  EXPECT_NEAR(out.pairs[1], std::log(2.0), 1e-3);
  EXPECT_NEAR(out.validation[0] - out.pairs[0], std::log(264.0), 1e-2);
  EXPECT_NEAR(out.run.loss[0] - out.pairs[1], std::log(264.0), 1e-2);
}

TEST_F(MaskedLayout, LayersWithTheSameWeights) {
  Settings one = serial();
  one.model.layer_groups = 1;
  for (const parallel::Layout& layout :
       {parallel::Layout{.pipeline = 3},
        parallel::Layout{.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}}) {
    Settings other = one;
    other.layout = layout;
    other.zero = layout.data > 1 ? 1 : 0;
    expect_same(one, other, objectives::Unit::word);
  }
}

// What a head leaves out would have added nothing.
TEST_F(MaskedLayout, TheRowsOfPredictedTokensAreEnough) {
  for (const Settings& few : {serial(), settings(megalith::testing::toy_llama_settings())}) {
    Settings all = few;
    all.predicted_per_sample = 0;
    all.z_loss = 1e-3;
    Settings more = all, other = all;
    other.predicted_per_sample = few.predicted_per_sample;
    more.predicted_per_sample = 7;
    expect_same(all, other);
    expect_same(all, more);
    other.layout = {.tensor = 2, .data = 2, .sequence = true};
    expect_same(all, other);
  }
}

// The loss is the mean over predicted tokens: at first that of the uniform distribution, whatever
// part of the tokens is predicted, and it falls.
TEST_F(MaskedLayout, TheLossIsOfPredictedTokensAloneAndFalls) {
  Settings settings = serial();
  settings.model.dropout = 0;
  settings.model.init_std = 1e-4;
  settings.z_loss = 0;
  MaskedRun out;
  train(settings, out);
  EXPECT_NEAR(out.validation.front(), std::log(264.0), 1e-4);
  EXPECT_NEAR(out.run.loss.front(), std::log(264.0), 1e-4);
  EXPECT_LT(out.validation.back(), out.validation.front() - 0.05);
}

}  // namespace
}  // namespace megalith::engine

// SPDX-License-Identifier: Apache-2.0
// Heads of sequences through the whole engine: the loss falls, every layout gives the bits of one
// rank, and what is read, named and refused knows that a unit of loss is a sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <set>

#include "comm/backends.h"
#include "engine/losses.h"
#include "engine/not_finite.h"
#include "engine/validation.h"
#include "inference/inference_model.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using layers::HeadDense;
using layers::HeadKind;
using layers::Pooling;
using megalith::testing::Machine;
using megalith::testing::run_toy;
using megalith::testing::toy_batch;
using megalith::testing::toy_sequence_settings;
using megalith::testing::ToyRun;
using ::testing::HasSubstr;

constexpr int kSequenceSteps = 4;

struct SequenceVariant {
  const char* name;
  HeadKind kind;
  void (*change)(Settings&);
};

constexpr SequenceVariant kSequenceVariants[] = {
    {"classes, last, tanh", HeadKind::sequence_classification, [](Settings&) {}},
    {"classes, first, linear, documents, bf16", HeadKind::sequence_classification,
     [](Settings& s) {
       s.model.head.pooling = Pooling::first;
       s.model.head.dense = HeadDense::linear;
       s.ragged = true;
       s.weights = s.activations = DType::bf16;
     }},
    {"numbers, mean", HeadKind::sequence_regression, [](Settings&) {}},
    {"numbers, the head alone trains", HeadKind::sequence_regression,
     [](Settings& s) {
       s.frozen = {"embedding.*", "position.*", "layers.*", "final_norm.*"};
       s.model.head.dense = HeadDense::tanh;
     }},
    {"classes, the embedding and a layer are frozen, bf16", HeadKind::sequence_classification,
     [](Settings& s) {
       s.frozen = {"embedding.*", "layers.1.*"};
       s.weights = s.activations = DType::bf16;
     }},
    {"classes of tokens, documents", HeadKind::token_classification,
     [](Settings& s) {
       s.model.head.dense = HeadDense::none;
       s.ragged = true;
     }},
    {"classes of tokens, tanh, bf16", HeadKind::token_classification,
     [](Settings& s) { s.weights = s.activations = DType::bf16; }},
    {"spans, tanh", HeadKind::question_answering, [](Settings&) {}},
    {"spans, documents, bf16", HeadKind::question_answering,
     [](Settings& s) {
       s.model.head.dense = HeadDense::none;
       s.ragged = true;
       s.weights = s.activations = DType::bf16;
     }},
    {"numbers, mean, tanh, documents, bf16, llama", HeadKind::sequence_regression,
     [](Settings& s) {
       const layers::HeadSpec head = s.model.head;
       s.model = megalith::testing::toy_llama_settings().model;
       s.model.head = head;
       s.model.head.dense = HeadDense::tanh;
       s.ragged = true;
       s.weights = s.activations = DType::bf16;
     }},
};

struct Way {
  const char* name;
  void (*change)(Settings&);
  Machine machine = {};
};

constexpr auto kInterleaved = parallel::ScheduleKind::interleaved;

const Way kWays[] = {
    {"t2", [](Settings& s) { s.layout.tensor = 2; }},
    {"t4 sequence", [](Settings& s) { s.layout = {.tensor = 4, .sequence = true}; }},
    {"t2 sequence, a sample at a time",
     [](Settings& s) {
       s.layout = {.tensor = 2, .sequence = true};
       s.micro_batch = 1;
     }},
    {"p3", [](Settings& s) { s.layout.pipeline = 3; }},
    {"t2 p2 d2 sequence, spread",
     [](Settings& s) {
       s.layout = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true};
       s.zero = 1;
     }},
    {"p2 chunks",
     [](Settings& s) {
       s.layout = {.pipeline = 2, .chunks = 2};
       s.pipeline_schedule = kInterleaved;
     }},
    {"d2", [](Settings& s) { s.layout.data = 2; }},
    {"four samples at a time", [](Settings& s) { s.micro_batch = 4; }},
    {"a sample at a time", [](Settings& s) { s.micro_batch = 1; }},
    {"recomputed", [](Settings& s) { s.recompute.mode = layers::Recompute::full; }},
    {"three threads", [](Settings&) {}, {.threads = 3}},
    {"avx2", [](Settings&) {}, {.isa = device::Isa::avx2}},
};

Settings sequence_variant(const SequenceVariant& variant) {
  Settings settings = toy_sequence_settings(variant.kind);
  variant.change(settings);
  settings.model.set_num_layers(4);
  return settings;
}

TEST(SequenceHeadLayout, EveryWayHasTheBitsOfOneRank) {
  for (const SequenceVariant& variant : kSequenceVariants) {
    const Settings serial = sequence_variant(variant);
    ToyRun expected;
    run_toy(serial, kSequenceSteps, {}, expected);
    for (const Way& way : kWays) {
      Settings other = serial;
      way.change(other);
      ToyRun actual;
      run_toy(other, kSequenceSteps, way.machine, actual);
      EXPECT_EQ(actual.state.faults(), std::vector<std::string>()) << variant.name << way.name;
      EXPECT_EQ(difference(expected, actual), "") << variant.name << ", " << way.name;
    }
  }
}

/// What must change the bits, does.
TEST(SequenceHeadLayout, TheDescriptionDoesChangeThem) {
  const Settings serial = toy_sequence_settings(HeadKind::sequence_classification);
  ToyRun expected;
  run_toy(serial, 2, {}, expected);
  const auto differs = [&](auto change) {
    Settings other = serial;
    change(other);
    ToyRun actual;
    run_toy(other, 2, {}, actual);
    return difference(expected, actual) != "";
  };
  EXPECT_TRUE(differs([](Settings& s) { s.model.head.pooling = Pooling::first; }));
  EXPECT_TRUE(differs([](Settings& s) { s.model.head.dense = HeadDense::linear; }));
  EXPECT_TRUE(differs([](Settings& s) { s.z_loss = 0; }));
}

TEST(SequenceHeadTraining, TheLossFalls) {
  for (const auto kind : {HeadKind::sequence_classification, HeadKind::sequence_regression}) {
    Settings settings = toy_sequence_settings(kind);
    settings.model.head.pooling = Pooling::last;  // the last token tells the target
    settings.model.dropout = settings.z_loss = 0;
    ToyRun run;
    run_toy(settings, 150, {}, run);
    const auto mean = [&](size_t begin) {
      return std::accumulate(run.loss.begin() + static_cast<std::ptrdiff_t>(begin),
                             run.loss.begin() + static_cast<std::ptrdiff_t>(begin + 10), 0.0) /
             10;
    };
    EXPECT_LT(mean(140), 0.5 * mean(0)) << settings::name_of(kind);
  }
}

/// One rank with the toy's weights.
struct SequenceToy {
  explicit SequenceToy(const Settings& of) : settings(of) { engine.initialise(); }
  Settings settings;
  std::unique_ptr<device::Device> device = device::make_cpu_device(1);
  std::unique_ptr<comm::Communicator> world = comm::make_self_communicator(*device);
  parallel::Mesh mesh{*world, settings.layout};
  Engine engine{settings, *device, mesh};
};

/// Losses of a sample are those of its documents, each in its weight, whatever is beside it.
TEST(SequenceHeadLosses, SumOverTheSequencesOfEachSample) {
  Settings settings = toy_sequence_settings(HeadKind::sequence_regression);
  settings.ragged = true;
  SequenceToy toy(settings);
  const auto together = toy.engine.sample_losses(toy_batch(settings, 3, 4)).sums;
  ASSERT_EQ(together.size(), 4u);
  for (int64_t i = 0; i < 4; ++i) {
    const data::HostBatch batch = toy_batch(settings, 3 + i, 1);
    EXPECT_EQ(toy.engine.sample_losses(batch).sums, std::vector{together[static_cast<size_t>(i)]})
        << i;
    data::HostBatch doubled = batch;
    for (float& weight : doubled.loss_weight_T) weight *= 2;
    EXPECT_EQ(toy.engine.sample_losses(doubled).sums,
              std::vector{2 * together[static_cast<size_t>(i)]});
  }
}

/// The toy's samples for validation.
class ToySource final : public data::BatchSource {
 public:
  explicit ToySource(const Settings& settings) : settings_(settings) {}
  int64_t sequence_length() const override { return settings_.sequence_length(); }
  int64_t samples_per_epoch() const override { return 1000; }
  void fill(int64_t first, int64_t count, data::HostBatch& batch) const override {
    batch = toy_batch(settings_, first, count);
  }
  std::optional<double> sample_weight() const override { return std::nullopt; }
  std::string fingerprint(const data::AtWork&) const override { return "toy"; }

 private:
  Settings settings_;
};

/// The class that is said is the one whose loss as a target would be the least.
TEST(SequenceHeadPredictions, AreTheClassesOfTheLeastLoss) {
  const Settings settings = toy_sequence_settings(HeadKind::sequence_classification);
  SequenceToy toy(settings);
  data::HostBatch batch = toy_batch(settings, 0, 8);
  std::ranges::fill(batch.loss_weight_T, 1.0F);
  const std::vector<int32_t> targets = batch.targets_T;
  const SampleLosses said = toy.engine.sample_losses(batch);
  EXPECT_EQ(said.targets, std::vector<double>(targets.begin(), targets.end()));
  std::vector<double> least(8, 0), lowest(8, std::numeric_limits<double>::infinity());
  for (int32_t target = 0; target < 3; ++target) {
    std::ranges::fill(batch.targets_T, target);
    const std::vector<double> losses = toy.engine.sample_losses(batch).sums;
    for (size_t i = 0; i < 8; ++i) {
      if (losses[i] >= lowest[i]) continue;
      lowest[i] = losses[i];
      least[i] = target;
    }
  }
  EXPECT_EQ(said.predictions, least);
  batch.loss_weight_T[2] = 0;  // what weighs nothing has no target to compare with
  EXPECT_EQ(toy.engine.sample_losses(batch).predictions.size(), 7u);
}

/// No class is said where nothing is the largest: a score of it would pass for one of the model.
TEST(SequenceHeadPredictions, OfOutputsThatAreNotFiniteAreNoClass) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  data::HostBatch batch;
  batch.loss_weight_T = {1, 1, 0, 1, 1};
  batch.targets_T = {0, 0, 0, 0, 0};
  const std::vector<double> y_UO{1, 2, kNan, 2, kNan, kNan, 2, -kInfinity, 3, 1};
  EXPECT_THAT(predictions_of(batch, y_UO, 2),
              ::testing::ElementsAre(1, ::testing::IsNan(), ::testing::IsNan(), 0));
}

TEST(SequenceHeadPredictions, OfAValidationAreTheSameUnderEveryLayout) {
  for (const auto kind : {HeadKind::sequence_classification, HeadKind::sequence_regression,
                          HeadKind::token_classification}) {
    Settings serial = toy_sequence_settings(kind);
    serial.ragged = true;
    if (kind == HeadKind::sequence_regression) serial.model.head.outputs = 1;
    serial.model.set_num_layers(4);
    std::vector<double> predictions, targets, answers;
    const auto validate = [&](const Settings& settings, bool is_first, const char* name) {
      check(settings, "toy settings");
      const ToySource source(settings);
      comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
        const auto device = device::make_cpu_device(1);
        world.set_device(device.get());
        const parallel::Mesh mesh(world, settings.layout);
        Engine engine(settings, *device, mesh);
        engine.initialise();
        const auto said = validation_loss(engine, source, 13, [] { return false; });
        if (is_first) {
          predictions = said->predictions;
          targets = said->targets;
          answers = said->answers;
        }
        EXPECT_EQ(said->predictions, predictions) << name;
        EXPECT_EQ(said->targets, targets) << name;
        EXPECT_EQ(said->answers, answers) << name;
        world.set_device(nullptr);
      });
    };
    validate(serial, true, "serial");
    EXPECT_GT(targets.size(), 8u);
    const bool of_tokens = kind == HeadKind::token_classification;
    EXPECT_EQ(std::accumulate(answers.begin(), answers.end(), 0.0),
              of_tokens ? static_cast<double>(targets.size()) : 0);
    EXPECT_GT(std::set<double>(predictions.begin(), predictions.end()).size(), 1u);
    for (const Way& way : kWays) {
      if (way.machine.threads > 1 || way.machine.isa != device::detect_isa()) continue;
      Settings other = serial;
      way.change(other);
      validate(other, false, way.name);
    }
  }
}

TEST(SequenceHeadSpans, LogitsOfAValidationAreTheSameUnderEveryLayout) {
  Settings serial = toy_sequence_settings(HeadKind::question_answering);
  serial.ragged = true;
  serial.model.set_num_layers(4);
  // Of each sequence its length and its largest start logit.
  const KeepSpans keep = [](const data::HostBatch& batch, std::span<const double> y_TO,
                            std::vector<double>& kept) {
    ASSERT_EQ(std::ssize(y_TO), 2 * batch.num_tokens());
    for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
      double most = -std::numeric_limits<double>::infinity();
      for (auto t = static_cast<size_t>(batch.cu_seqlens[s]);
           t < static_cast<size_t>(batch.cu_seqlens[s + 1]); ++t)
        most = std::max(most, y_TO[2 * t]);
      kept.push_back(batch.cu_seqlens[s + 1] - batch.cu_seqlens[s]);
      kept.push_back(most);
    }
  };
  std::vector<double> kept;
  const auto validate = [&](const Settings& settings, bool is_first, const char* name) {
    check(settings, "toy settings");
    const ToySource source(settings);
    comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
      const auto device = device::make_cpu_device(1);
      world.set_device(device.get());
      const parallel::Mesh mesh(world, settings.layout);
      Engine engine(settings, *device, mesh);
      engine.initialise();
      const auto said = validation_loss(
          engine, source, 13, [] { return false; }, keep);
      if (is_first) kept = said->kept_of_spans;
      EXPECT_EQ(said->kept_of_spans, kept) << name;
      EXPECT_TRUE(said->predictions.empty());
      world.set_device(nullptr);
    });
  };
  validate(serial, true, "serial");
  EXPECT_GT(kept.size(), 2 * 13u);
  EXPECT_GT(std::set<double>(kept.begin(), kept.end()).size(), 13u);
  for (const Way& way : kWays) {
    if (way.machine.threads > 1 || way.machine.isa != device::detect_isa()) continue;
    Settings other = serial;
    way.change(other);
    validate(other, false, way.name);
  }
}

TEST(SequenceHeadLosses, WhatIsNotFiniteIsNamedByItsSequence) {
  Settings settings = toy_sequence_settings(HeadKind::sequence_regression);
  settings.ragged = true;
  SequenceToy toy(settings);
  std::vector<data::HostBatch> batches{toy_batch(settings, 0, 2), toy_batch(settings, 2, 2)};
  // Sample 2 has two documents, and sample 3 has one.
  ASSERT_THAT(batches[1].sequence_sample, ::testing::ElementsAre(2, 2, 3));
  for (auto& batch : batches) std::ranges::fill(batch.loss_weight_T, 1.0F);
  batches[1].target_numbers[1 * 2] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(first_not_finite(toy.engine, 1, batches, 5), HasSubstr("sequence 1 of sample 2"));
  batches[1].loss_weight_T[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(first_not_finite(toy.engine, 1, batches, 5),
            "the input: the loss weight of sequence 0 of sample 3 is nan");
}

TEST(SequenceHeadReading, IsRefusedWhereLogitsAreRead) {
  const Settings settings = toy_sequence_settings(HeadKind::sequence_classification);
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(settings.model, *device, {});
  const std::vector<int32_t> ids{1, 2, 3};
  for (const bool scores : {true, false}) {
    try {
      scores ? static_cast<void>(model.engine().score(ids))
             : static_cast<void>(model.engine().make_cache(4));
      ADD_FAILURE() << "a head of sequences gave logits";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a model whose head gives logits of its vocabulary"));
      EXPECT_THAT(error.what(), HasSubstr("sequence_classification"));
    }
  }
}

}  // namespace
}  // namespace megalith::engine

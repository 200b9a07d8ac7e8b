// SPDX-License-Identifier: Apache-2.0
// The ladder: what must not depend on the layout, one level upon the other, so that the lowest red
// level says where a fault lies. Each holds the same list of layouts to one rank, bit by bit:
//   L1  the weights that are drawn from the seed
//   L2  one step: its loss, every gradient, their norm, the clip factor, the state after it
//   L3  a run with a batch ramp-up and a learning rate that changes
//   L4  what one layout saves and another loads
// L0 are the primitives' own tests (kernels, comm, parallel), L5 those of reading through a cache
// as training reads (generate). L4 compares a state with itself: it says nothing about training.
// tools/plant_faults.py breaks the sources and demands the very levels that must turn red.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/saver.h"
#include "checkpoint/step_folders.h"
#include "comm/backends.h"
#include "data/test_corpus.h"
#include "engine/state.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::LogicalState;
using megalith::testing::run_toy;
using megalith::testing::toy_micro_batches;
using megalith::testing::toy_settings;
using megalith::testing::toy_weight;
using megalith::testing::ToyRun;

constexpr int kRunSteps = 4;
constexpr comm::RankOptions kSoon{60};  // a fault that makes ranks wait ends too

struct Change {
  const char* name;
  void (*apply)(Settings&);
};

constexpr Change kRecipes[] = {
    {"tied_f32", [](Settings&) {}},
    {"untied_bf16_documents",
     [](Settings& s) {
       s.model.head.tied = false;
       testing::set_materialised(s.model);
       s.weights = s.activations = DType::bf16;
       s.ragged = true;
     }},
    {"llama_bf16_documents",
     [](Settings& s) {
       const int64_t layers = s.model.num_layers();
       s.model = testing::toy_llama_settings().model;
       s.model.set_num_layers(layers);
       s.weights = s.activations = DType::bf16;
       s.ragged = true;
     }},
    // f32: in one step rounding to bf16 would hide another order of sums.
    {"grouped_f32",
     [](Settings& s) {
       s.model = testing::toy_llama_settings().model;
       s.model.set_num_layers(5);
       testing::set_kv_heads(s.model, 2);  // of four tensor shards
     }},
};

constexpr Change kLayouts[] = {
    {"micro_batch_2", [](Settings& s) { s.micro_batch = 2; }},
    {"selective", [](Settings& s) { s.recompute.mode = layers::Recompute::selective; }},
    {"full", [](Settings& s) { s.recompute.mode = layers::Recompute::full; }},
    {"t2", [](Settings& s) { s.layout = {.tensor = 2}; }},
    {"t4", [](Settings& s) { s.layout = {.tensor = 4}; }},
    // Several samples: a rank's rows of a micro-batch are not neighbours.
    {"t2_sequence_micro_batch_2",
     [](Settings& s) {
       s.layout = {.tensor = 2, .sequence = true};
       s.micro_batch = 2;
     }},
    {"t4_sequence", [](Settings& s) { s.layout = {.tensor = 4, .sequence = true}; }},
    {"p2", [](Settings& s) { s.layout = {.pipeline = 2}; }},
    {"p3", [](Settings& s) { s.layout = {.pipeline = 3}; }},
    {"p4_gpipe",
     [](Settings& s) {
       s.layout = {.pipeline = 4};
       s.pipeline_schedule = parallel::ScheduleKind::gpipe;
     }},
    {"p2_chunks",
     [](Settings& s) {
       s.layout = {.pipeline = 2, .chunks = 2};
       s.pipeline_schedule = parallel::ScheduleKind::interleaved;
     }},
    {"d2", [](Settings& s) { s.layout = {.data = 2}; }},
    {"d4", [](Settings& s) { s.layout = {.data = 4}; }},
    {"d2_spread",
     [](Settings& s) {
       s.layout = {.data = 2};
       s.zero = 1;
     }},
    {"d4_spread",
     [](Settings& s) {
       s.layout = {.data = 4};
       s.zero = 1;
     }},
    {"t2_p2_d2", [](Settings& s) { s.layout = {.tensor = 2, .pipeline = 2, .data = 2}; }},
    {"t2_p2_d2_all",
     [](Settings& s) {
       s.layout = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true};
       s.zero = 1;
       s.recompute.mode = layers::Recompute::selective;
     }},
    {"t4_p2_full",
     [](Settings& s) {
       s.layout = {.tensor = 4, .pipeline = 2, .sequence = true};
       s.recompute.mode = layers::Recompute::full;
     }},
};

/// A recipe and a layout, by their places in the lists.
using Point = std::tuple<int, int>;

class Ladder : public ::testing::TestWithParam<Point> {
 protected:
  static const Change& recipe() { return kRecipes[std::get<0>(GetParam())]; }
  static Settings serial() {
    Settings s = toy_settings();
    s.model.set_num_layers(5);  // uneven over the stages
    s.split = {4, 4};
    s.micro_batch = 1;
    s.batch = {.full = 16, .start = 8, .increment = 8, .samples = 16};
    s.schedule = {.kind = optim::ScheduleKind::cosine,
                  .peak = 1e-2,
                  .floor = 1e-3,
                  .warmup_steps = 2,
                  .total_steps = kRunSteps};
    recipe().apply(s);
    return s;
  }
  /// The point's layout, or one further in the list.
  static Settings laid_out(size_t further = 0) {
    Settings s = serial();
    const auto at = static_cast<size_t>(std::get<1>(GetParam())) + further;
    kLayouts[at % std::size(kLayouts)].apply(s);
    check(s, "ladder");
    return s;
  }
};

std::string name_of(const ::testing::TestParamInfo<Point>& point) {
  return fmt::format("{}_{}", kRecipes[std::get<0>(point.param)].name,
                     kLayouts[std::get<1>(point.param)].name);
}

const auto kAllPoints =
    ::testing::Combine(::testing::Range(0, static_cast<int>(std::size(kRecipes))),
                       ::testing::Range(0, static_cast<int>(std::size(kLayouts))));

void on_ranks(const Settings& settings, FunctionRef<void(comm::Communicator&, Engine&)> body) {
  comm::run_ranks(
      settings.layout.num_ranks(),
      [&](comm::Communicator& world) {
        const auto device = device::make_cpu_device(1);
        const parallel::Mesh mesh(world, settings.layout);
        Engine engine(settings, *device, mesh);
        body(world, engine);
      },
      kSoon);
}

void expect_equal(const LogicalState& expected, const LogicalState& actual, const char* what) {
  for (const std::string& fault : actual.faults()) ADD_FAILURE() << what << ": " << fault;
  EXPECT_EQ(difference(expected, actual), "") << what;
}

// ---- L1

class L1Initialisation : public Ladder {};
INSTANTIATE_TEST_SUITE_P(Ladder, L1Initialisation, kAllPoints, name_of);

TEST_P(L1Initialisation, EveryLayoutDrawsTheSameWeights) {
  LogicalState expected, actual;
  const auto draw = [](LogicalState& state) {
    return [&state](comm::Communicator&, Engine& engine) {
      engine.initialise();
      state.add(engine);
    };
  };
  on_ranks(serial(), draw(expected));
  on_ranks(laid_out(), draw(actual));
  expect_equal(expected, actual, "weights");
}

// ---- L2

class L2Step : public Ladder {};
INSTANTIATE_TEST_SUITE_P(Ladder, L2Step, kAllPoints, name_of);

/// What the step multiplied every gradient with, on this rank. Collective.
float clip_factor(Engine& engine) {
  const Settings& s = engine.settings();
  parameters::ParameterSet whole;
  const models::Decoder declarations(
      s.model, whole, models::Stage::whole(s.model),
      layers::Partition{s.split.tensor_shards, 1, 0, s.token_partials(), false});
  const optim::GradientNorm norm = optim::gradient_norm(
      engine.model().exec(), engine.mesh(), engine.parameters(), optim::NormOrder(whole), s.clip);
  float factor = 0;
  engine.device().wait(engine.device().copy_to_host(&factor, norm.factor.view));
  return factor;
}

void add_gradients(Engine& engine, LogicalState& gradients) {
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    const View owned = parameter.owned_part(parameter.gradient());
    std::vector<std::byte> host(static_cast<size_t>(owned.bytes()));
    engine.device().wait(engine.device().copy_to_host(host.data(), owned));
    gradients.add(parameter.name(), owned.dtype(), parameter.shape(), parameter.declaration().shard,
                  host.data(), parameter.owned());
  }
}

struct FirstStep {
  LogicalState gradients, state;
  std::vector<std::string> numbers;  // by rank
  std::vector<float> factors;
};

void take_first_step(const Settings& s, FirstStep& taken) {
  const auto ranks = static_cast<size_t>(s.layout.num_ranks());
  taken.numbers.resize(ranks);
  taken.factors.resize(ranks);
  on_ranks(s, [&](comm::Communicator& world, Engine& engine) {
    engine.initialise();
    const StepResult result =
        engine.step(1, optim::learning_rate(s.schedule, {}),
                    toy_micro_batches(s, 1, engine.mesh().at().data), toy_weight(s, 1));
    add_gradients(engine, taken.gradients);
    taken.state.add(engine);
    const auto rank = static_cast<size_t>(world.rank());
    taken.factors[rank] = clip_factor(engine);
    taken.numbers[rank] = fmt::format("loss {:a}, norm {:a}, clip factor {:a}", result.loss,
                                      result.grad_norm, taken.factors[rank]);
  });
}

TEST_P(L2Step, GradientsClipFactorAndUpdatedStateAreThoseOfOneRank) {
  FirstStep expected, actual;
  take_first_step(serial(), expected);
  ASSERT_LT(expected.factors[0], 1) << "clipping does not bite";
  take_first_step(laid_out(), actual);
  for (const std::string& numbers : actual.numbers) EXPECT_EQ(numbers, expected.numbers[0]);
  expect_equal(expected.gradients, actual.gradients, "gradients");
  expect_equal(expected.state, actual.state, "state after the step");
}

// ---- L3

class L3Run : public Ladder {};
INSTANTIATE_TEST_SUITE_P(Ladder, L3Run, kAllPoints, name_of);

TEST_P(L3Run, LossesNormsAndStateAreThoseOfOneRank) {
  ToyRun expected, actual;
  run_toy(serial(), kRunSteps, {}, expected);
  run_toy(laid_out(), kRunSteps, {}, actual);
  for (const std::string& fault : actual.state.faults()) ADD_FAILURE() << fault;
  EXPECT_EQ(difference(expected, actual), "");
}

// ---- L4

class L4Resume : public Ladder {};
INSTANTIATE_TEST_SUITE_P(Ladder, L4Resume, kAllPoints, name_of);

/// Numbers of their own into every master and moment, by logical element.
void draw_state(Engine& engine) {
  ShardedOptimizerState spread(engine);
  std::vector<std::byte> host;
  const DType dtype = engine.settings().masters;
  const auto draw = [&](const parameters::Parameter& parameter, const char* kind) {
    parameters::Declaration declaration = parameter.declaration();
    declaration.name += kind;
    declaration.init = {parameters::Init::Kind::normal, 1};
    host.resize(static_cast<size_t>(parameter.local_elements() * bytes_of(dtype)));
    initial_value(parameters::Parameter(declaration), 1, dtype, host.data());
  };
  size_t index = 0;
  for (parameters::Parameter& parameter : engine.parameters().all()) {
    draw(parameter, ".master");
    engine.parameters().load(engine.device(), parameter, dtype, host.data());
    draw(parameter, ".first");
    spread.load(index, engine.optimizer().states(index)[0], host.data());
    draw(parameter, ".second");
    spread.load(index, engine.optimizer().states(index)[1], host.data());
    ++index;
  }
}

/// Saved under the point's layout, loaded under the next one of the list. That training goes on
/// alike from there is what L3 holds: a step depends on the state and its number alone.
TEST_P(L4Resume, WhatIsLoadedIsWhatWasSaved) {
  const data::TemporaryFolder folder;
  LogicalState saved, loaded;
  on_ranks(laid_out(), [&](comm::Communicator& world, Engine& engine) {
    draw_state(engine);
    saved.add(engine);
    checkpoint::Saver saver(folder.path(), {.asynchronous = false}, &world);
    ShardedOptimizerState spread(engine);
    saver.save(engine.device(), 1, state_tensors(engine, spread), nlohmann::json::object(), {});
    saver.wait();
  });
  ASSERT_TRUE(saved.faults().empty());
  const auto found = checkpoint::find_newest(folder.path(), true);
  ASSERT_TRUE(found.has_value());
  on_ranks(laid_out(1), [&](comm::Communicator&, Engine& engine) {
    load_state(*found, engine);
    loaded.add(engine);
  });
  expect_equal(saved, loaded, "state");
}

}  // namespace
}  // namespace megalith::engine

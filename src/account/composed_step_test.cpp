// SPDX-License-Identifier: Apache-2.0
// A composed step is the whole traced step, by class and in work, for every rank of every layout.
#include "account/composed_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>

#include "account/layout_plan.h"
#include "comm/backends.h"
#include "engine/from_recipe.h"
#include "families/families.h"
#include "testing/toy_model.h"

namespace megalith::account {
namespace {

using megalith::testing::toy_llama_settings;
using megalith::testing::toy_sequence_settings;
using megalith::testing::toy_settings;

const device::Target kComposedTarget{device::DeviceKind::cpu, device::Isa::avx2, 1};

struct WholeStep {
  MemoryByClass memory;
  StepWork step;
};

WholeStep whole_step(const engine::Settings& s, int rank, const BesideSteps& beside) {
  WholeStep trace;
  const Plan plan = account::trace(kComposedTarget, [&](device::Device& device) {
    const auto world = comm::make_traced_communicator(device, rank, s.layout.num_ranks());
    TracedRun run(s, device, *world, beside);
    run.step(shaped_batches(s));
    device::Recorder* const recorder = device.recorder();
    trace.step = {recorder->total(), wire_bytes_by_kind(recorder->records())};
    run.between_steps();
  });
  trace.memory = plan.memory;
  return trace;
}

void expect_whole(const engine::Settings& s, const BesideSteps& beside, const std::string& what) {
  RankClasses classes(s, beside);
  ComposedSteps steps(s, kComposedTarget);
  for (int rank = 0; rank < s.layout.num_ranks(); ++rank) {
    const WholeStep whole = whole_step(s, rank, beside);
    const MemoryByClass memory = steps.memory(rank, beside, classes.step_key(rank));
    const StepWork step = steps.work(rank);
    for (int i = 0; i < device::kNumMemoryClasses; ++i) {
      const auto memory_class = static_cast<device::MemoryClass>(i);
      EXPECT_EQ(memory.of(memory_class), whole.memory.of(memory_class))
          << what << ", class " << name_of(memory_class) << ", rank " << rank;
    }
    EXPECT_EQ(memory.total, whole.memory.total) << what << ", rank " << rank;
    EXPECT_EQ(step.work.flops, whole.step.work.flops) << what << ", rank " << rank;
    EXPECT_EQ(step.work.bytes_read, whole.step.work.bytes_read) << what;
    EXPECT_EQ(step.work.bytes_written, whole.step.work.bytes_written) << what;
    EXPECT_EQ(step.work.bytes_wire, whole.step.work.bytes_wire) << what;
    EXPECT_EQ(step.wire_bytes, whole.step.wire_bytes) << what;
  }
}

struct Variation {
  const char* name;
  void (*apply)(engine::Settings&);
};

using parallel::ScheduleKind;

constexpr Variation kLayouts[] = {
    {"one rank", [](engine::Settings&) {}},
    {"t2", [](engine::Settings& s) { s.layout = {.tensor = 2}; }},
    {"t4 sequence", [](engine::Settings& s) { s.layout = {.tensor = 4, .sequence = true}; }},
    {"p2", [](engine::Settings& s) { s.layout = {.pipeline = 2}; }},
    {"p3, all forward",
     [](engine::Settings& s) {
       s.layout = {.pipeline = 3};
       s.pipeline_schedule = ScheduleKind::gpipe;
     }},
    {"p5, a layer each", [](engine::Settings& s) { s.layout = {.pipeline = 5}; }},
    {"p2 chunks d2",
     [](engine::Settings& s) {
       s.layout = {.pipeline = 2, .data = 2, .chunks = 2};
       s.pipeline_schedule = ScheduleKind::interleaved;
     }},
    {"d2 zero",
     [](engine::Settings& s) {
       s.layout = {.data = 2};
       s.zero = 1;
     }},
    {"t2 p2 d2 sequence zero",
     [](engine::Settings& s) {
       s.layout = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true};
       s.zero = 1;
     }},
};

constexpr Variation kModels[] = {
    {"gpt", [](engine::Settings&) {}},
    {"untied bf16",
     [](engine::Settings& s) {
       s.model.head.tied = false;
       s.weights = s.activations = DType::bf16;
     }},
    {"llama f16",
     [](engine::Settings& s) {
       s.model = toy_llama_settings().model;
       s.weights = s.activations = DType::f16;
       s.loss_scale.emplace();
     }},
    {"materialised, selective",
     [](engine::Settings& s) {
       testing::set_materialised(s.model);
       s.recompute.mode = layers::Recompute::selective;
     }},
    {"full", [](engine::Settings& s) { s.recompute.mode = layers::Recompute::full; }},
    {"hidden tokens",
     [](engine::Settings& s) {
       s.model.for_each_layer([](layers::LayerSpec& layer) { layer.attention.causal = false; });
       s.predicted_per_sample = 3;
     }},
    {"8 bits but for the first two layers",
     [](engine::Settings& s) {
       s.weights = s.activations = DType::bf16;
       s.fp8.emplace();
       s.fp8->first_wide = 2;  // stages in the middle are not alike
     }},
    {"two layers full", [](engine::Settings& s) { s.recompute.full_layers = 2; }},
    {"llama, all layers unlike", [](engine::Settings& s) { s.model = toy_llama_settings().model; }},
    {"grouped, every other layer with a window and wider",
     [](engine::Settings& s) {
       s.model = toy_llama_settings().model;
       testing::set_kv_heads(s.model, 2);
       for (size_t i = 0; i < 2; ++i) s.model.layers[i] = s.model.layers[2];
       s.model.set_num_layers(5);
       for (const size_t i : {1u, 3u}) {
         s.model.layers[i].attention.window = 5;
         s.model.layers[i].mlp.ffn = 60;
       }
     }},
    {"documents", [](engine::Settings& s) { s.ragged = true; }},
    {"layers with the same weights", [](engine::Settings& s) { s.model.layer_groups = 1; }},
    {"two groups of layers with the same weights, partly frozen",
     [](engine::Settings& s) {
       s.model.layer_groups = 2;
       s.weights = s.activations = DType::bf16;
       s.frozen = {"layers.0.mlp.*", "layers.1.norm_*"};
     }},
    {"an encoder and a decoder",
     [](engine::Settings& s) {
       s.model = megalith::testing::toy_encoder_decoder_settings().model;
       s.decoder_length = 8;
     }},
    {"t5, an odd number of tokens, bf16",
     [](engine::Settings& s) {
       s.model = megalith::testing::toy_family_settings(models::kT5).model;
       s.decoder_length = s.layout.sequence ? 12 : 7;
       s.weights = s.activations = DType::bf16;
       s.recompute.mode = layers::Recompute::selective;
     }},
    {"relative positions",
     [](engine::Settings& s) { s.model = megalith::testing::toy_relative_settings().model; }},
    {"partly frozen",
     [](engine::Settings& s) {
       s.weights = s.activations = DType::bf16;
       for (const char* match : {"embedding.*", "layers.1.*", "layers.3.attention.*"})
         s.frozen.emplace_back(match);
     }},
    {"classes of documents",
     [](engine::Settings& s) {
       s.model.head = toy_sequence_settings(layers::HeadKind::sequence_classification).model.head;
       s.ragged = true;
     }},
    {"spans of documents",
     [](engine::Settings& s) {
       s.model.head = toy_sequence_settings(layers::HeadKind::question_answering).model.head;
       s.ragged = true;
     }},
    {"classes of tokens",
     [](engine::Settings& s) {
       s.model.head = toy_sequence_settings(layers::HeadKind::token_classification).model.head;
     }},
    {"numbers of sequences",
     [](engine::Settings& s) {
       s.model.head = toy_sequence_settings(layers::HeadKind::sequence_regression).model.head;
     }},
};

/// Few micro-batches, and so many that repeats are left out.
constexpr int64_t kBatches[] = {8, 96};

TEST(ComposedStep, IsTheWholeStepUnderEveryLayout) {
  for (const Variation& layout : kLayouts) {
    for (const Variation& model : kModels) {
      for (const int64_t batch : kBatches) {
        engine::Settings s = toy_settings();
        layout.apply(s);
        model.apply(s);
        s.model.set_num_layers(5);
        s.batch.full = batch;
        expect_whole(s, {}, fmt::format("{}, {}, {} samples", layout.name, model.name, batch));
      }
    }
  }
}

TEST(ComposedStep, IsTheWholeStepWithWhatIsBesideIt) {
  for (const Variation& layout : kLayouts) {
    engine::Settings s = toy_settings();
    layout.apply(s);
    s.model.set_num_layers(5);
    expect_whole(s, {3, true, true, {4, 7}, 5}, layout.name);
  }
}

TEST(ComposedStep, IsTheWholeStepOfEveryRecipe) {
  int recipes = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(MEGA_SOURCE_DIR) / "recipes")) {
    if (entry.is_directory()) continue;  // descriptions of machines
    const config::Recipe recipe = config::load_recipe(entry.path());
    const engine::Settings s = engine::settings_of(recipe, recipe.model.vocab > 0 ? 0 : 1000);
    const std::vector<int64_t> prompts =
        s.model.is_causal() ? std::vector<int64_t>{10} : std::vector<int64_t>{};
    expect_whole(s, beside_steps(recipe, prompts), entry.path().filename().string());
    ++recipes;
  }
  EXPECT_GE(recipes, 3);
}

/// Llama 3.1 405B on 1,024 ranks (Grattafiori et al. 2024, table 4, at a sequence of 8192).
TEST(ComposedStep, ALargeModelIsOfFourKindsOfChunks) {
  engine::Settings s;
  s.model = models::llama({.layers = 126,
                           .hidden = 16384,
                           .heads = 128,
                           .kv_heads = 8,
                           .head_dim = 128,
                           .ffn = 53248,
                           .context = 8192,
                           .vocab = 128256});
  s.layout = {.tensor = 8, .pipeline = 16, .data = 8, .sequence = true};
  s.split = {8, 8};
  s.weights = s.activations = DType::bf16;
  s.batch.full = 2048;
  s.zero = 1;
  const std::clock_t begin = std::clock();  // of the processor: others may use the machine too
  const LayoutPlan plan = plan_layout(s, kComposedTarget, {.validation_samples = 8, .saves = true});
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(std::ssize(plan.class_of), 1024);
  EXPECT_LE(seconds, 5);
  RecordProperty("seconds", std::to_string(seconds));

  const BesideSteps beside{.validation_samples = 8, .saves = true};
  for (const int rank : {0, 1023})
    EXPECT_EQ(plan.of(rank).memory, whole_step(s, rank, beside).memory) << rank;
  ComposedSteps steps(s, kComposedTarget);
  for (int stage = 0; stage < 16; ++stage)
    steps.work(parallel::rank_of(s.layout, {.pipeline = stage}));
  // Eight layers with the embedding, eight and seven between, seven with the head.
  EXPECT_EQ(steps.tapes().size(), 4u);
}

}  // namespace
}  // namespace megalith::account

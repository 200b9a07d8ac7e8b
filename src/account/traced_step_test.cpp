// SPDX-License-Identifier: Apache-2.0
// The plan is the allocation: marks of a traced step against those of a real one, by class and in
// sum, to the byte.
#include "account/traced_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "account/layout_plan.h"
#include "account/plan.h"
#include "bottlenecks/trained_bottlenecks.h"
#include "comm/backends.h"
#include "engine/engine.h"
#include "engine/state.h"
#include "prompts/prompt_table.h"
#include "report/test_folder.h"
#include "testing/toy_adapter.h"
#include "testing/toy_model.h"

namespace megalith::account {
namespace {

using megalith::testing::toy_batch;
using megalith::testing::toy_micro_batches;
using megalith::testing::toy_settings;
using megalith::testing::toy_weight;

/// By rank, as `plan` has it: one of each kind is traced.
std::vector<account::MemoryByClass> planned(const engine::Settings& settings, int threads,
                                            int64_t validation_samples) {
  const device::Target target{device::DeviceKind::cpu, device::detect_isa(), threads};
  return plan_memory(settings, target, {validation_samples, true, true});
}

/// By rank. Two steps and two validations: the second of each must not need more than the first.
std::vector<account::MemoryByClass> measured(const engine::Settings& settings, int threads,
                                             int64_t validation_samples) {
  std::vector<account::MemoryByClass> memory(static_cast<size_t>(settings.layout.num_ranks()));
  const report::TestFolder folder;
  comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(threads);
    const parallel::Mesh mesh(world, settings.layout);
    engine::Engine engine(settings, *device, mesh);
    checkpoint::Saver saver(folder.path() / std::to_string(world.rank()), {});
    saver.reserve(*device, engine::state_bytes(engine));
    engine.initialise();
    for (int64_t step = 1; step <= 2; ++step) {
      engine.step(step, 1e-3, toy_micro_batches(settings, step, mesh.at().data),
                  toy_weight(settings, step));
      if (settings.fp8 && settings.fp8->guard.every > 0) {
        engine.check_fp8(step, toy_micro_batches(settings, step, mesh.at().data));
        for (size_t i = 0; i < engine.fp8()->products().size(); ++i)
          engine.fp8()->set_wide(i, true);  // the second step is in bf16
      }
      const int64_t mine =
          comm::part_of(validation_samples, mesh.at().data, settings.layout.data).count;
      if (const int64_t count = std::min(mine, settings.micro_batch); count > 0)
        engine.sample_losses(toy_batch(settings, 100, count));
      engine::ShardedOptimizerState spread(engine);
      engine::state_tensors(engine, spread);
    }
    memory[static_cast<size_t>(world.rank())] = account::memory_of(*device);
  });
  return memory;
}

void expect_planned(const engine::Settings& settings, int threads, int64_t validation_samples,
                    const std::string& what) {
  const auto actual = measured(settings, threads, validation_samples);
  const auto plans = planned(settings, threads, validation_samples);
  ASSERT_EQ(plans.size(), actual.size());
  account::MemoryByClass most;  // of all ranks: a stage may have nothing to save
  for (size_t rank = 0; rank < actual.size(); ++rank) {
    const account::MemoryByClass& plan = plans[rank];
    for (int i = 0; i < device::kNumMemoryClasses; ++i) {
      const auto memory_class = static_cast<device::MemoryClass>(i);
      EXPECT_EQ(plan.of(memory_class), actual[rank].of(memory_class))
          << what << ", class " << name_of(memory_class) << ", rank " << rank;
      int64_t& bytes = most.bytes[static_cast<size_t>(i)];
      bytes = std::max(bytes, plan.of(memory_class));
    }
    EXPECT_EQ(plan.total, actual[rank].total) << what << ", rank " << rank;
  }
  for (int i = 0; i < device::kNumMemoryClasses; ++i) {
    const auto memory_class = static_cast<device::MemoryClass>(i);
    EXPECT_GT(most.of(memory_class), 0) << what << ", class " << name_of(memory_class);
  }
}

engine::Settings with(DType dtype, bool materialised, int64_t accumulation, bool tied) {
  engine::Settings settings = toy_settings();
  settings.weights = settings.activations = dtype;
  if (dtype == DType::f16) settings.loss_scale.emplace();
  testing::set_materialised(settings.model, materialised);
  settings.model.head.tied = tied;
  settings.split.data_shards = 1;
  settings.batch.full = settings.micro_batch * accumulation;
  return settings;
}

TEST(TracedStep, PlansToTheByte) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool materialised : {false, true}) {
      for (const int64_t accumulation : {1, 4}) {
        for (const bool tied : {true, false}) {
          const engine::Settings settings = with(dtype, materialised, accumulation, tied);
          const std::string what = fmt::format("{}, {}, accumulation {}, {}", dtype,
                                               materialised ? "materialised" : "streaming",
                                               accumulation, tied ? "tied" : "untied");
          expect_planned(settings, 1, 2, what);
          expect_planned(settings, 2, 2, what + ", 2 threads");
        }
      }
    }
  }
}

/// Factors beside products: of the weights no gradients, moments or masters, and not in saves.
TEST(TracedStep, PlansLowRankFactorsToTheByte) {
  for (const bool llama : {false, true}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const double dropout : {0.0, 0.1}) {
        engine::Settings settings = llama ? testing::toy_llama_settings() : toy_settings();
        settings.weights = settings.activations = dtype;
        settings.factors =
            low_rank::factors_of(testing::toy_factors(settings.model, dropout), settings.masters);
        const std::string what =
            fmt::format("{} {} dropout {}", settings.model.family, dtype, dropout);
        expect_planned(settings, 1, 2, what);
        settings.recompute.mode = layers::Recompute::full;
        settings.layout = {.tensor = 2, .pipeline = 3, .data = 2, .sequence = dropout == 0};
        settings.zero = 1;
        expect_planned(settings, 1, 2, what + " on twelve ranks");
      }
    }
  }
}

/// Pairs of answers, whose head runs twice, with all weights and with factors.
TEST(TracedStep, PlansPreferencesToTheByte) {
  for (const bool beside : {false, true}) {
    for (const int64_t predicted : {0, 12}) {
      engine::Settings settings = testing::toy_llama_settings();
      settings.ragged = true;
      settings.preferences.emplace();
      settings.predicted_per_sample = predicted;
      if (beside)
        settings.factors =
            low_rank::factors_of(testing::toy_factors(settings.model, 0), settings.masters);
      const std::string what =
          fmt::format("{}, {} predicted", beside ? "factors" : "weights", predicted);
      expect_planned(settings, 1, 2, what);
      settings.layout = {.tensor = 2, .pipeline = 3, .data = 2, .sequence = true};
      settings.zero = 1;
      expect_planned(settings, 1, 2, what + " on twelve ranks");
    }
  }
}

/// Learned vectors the same, and what computes again what products gave: magnitudes of factors, and
/// bottlenecks.
TEST(TracedStep, PlansLearnedVectorsToTheByte) {
  const auto products = [](const models::ModelSpec& spec) {
    auto made = std::make_shared<low_rank::FactoredProducts>(*testing::toy_factors(spec));
    made->has_magnitudes = true;
    return made;
  };
  for (const int kind : {0, 1, 2}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const bool llama = (kind == 1) != (dtype == DType::f32);
      engine::Settings settings = llama ? testing::toy_llama_settings() : toy_settings();
      const DType masters = settings.masters;
      settings.weights = settings.activations = dtype;
      settings.factors = kind == 0 ? ia3::vectors_of(testing::toy_vectors(settings.model), masters)
                         : kind == 1 ? low_rank::factors_of(products(settings.model), masters)
                                     : bottlenecks::bottlenecks_of(5, masters);
      const std::string what = fmt::format("{} {} kind {}", settings.model.family, dtype, kind);
      expect_planned(settings, 1, 2, what);
      settings.recompute.mode = layers::Recompute::full;
      settings.layout = {.tensor = 2, .pipeline = 3, .data = 2, .sequence = true};
      settings.zero = 1;
      expect_planned(settings, 1, 2, what + " on twelve ranks");
    }
  }
}

/// And virtual tokens, those behind an encoder too: one that takes less than a pass, and more.
TEST(TracedStep, PlansVirtualTokensToTheByte) {
  using enum config::PromptEncoderKind;
  const prompts::EncoderSpec encoders[] = {
      {embedding, 0, 2}, {mlp, 12, 2}, {lstm, 8, 2}, {mlp, 1500, 2}, {lstm, 400, 1}};
  for (const prompts::EncoderSpec& encoder : encoders) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const bool llama = dtype == DType::bf16;
      engine::Settings settings = llama ? testing::toy_llama_settings() : toy_settings();
      settings.weights = settings.activations = dtype;
      settings.virtual_tokens = prompts::table_of(3, encoder, settings.masters);
      const std::string what = fmt::format("{} {} virtual tokens, {} {}", settings.model.family,
                                           dtype, name_of(encoder.kind), encoder.hidden);
      expect_planned(settings, 1, 2, what);
      settings.recompute.mode = layers::Recompute::full;
      settings.layout = {.tensor = 2, .pipeline = 3, .data = 2, .sequence = true};
      settings.zero = 1;
      expect_planned(settings, 1, 2, what + " on twelve ranks");
    }
  }
}

/// A validation of classes or numbers gives answers beside losses.
TEST(TracedStep, PlansAnswersOfSequencesToTheByte) {
  for (const auto kind :
       {layers::HeadKind::sequence_classification, layers::HeadKind::sequence_regression,
        layers::HeadKind::token_classification, layers::HeadKind::question_answering}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      engine::Settings settings = testing::toy_sequence_settings(kind);
      if (kind == layers::HeadKind::sequence_regression) settings.model.head.outputs = 1;
      settings.weights = settings.activations = dtype;
      settings.ragged = true;
      const std::string what = fmt::format("{} {}", settings::name_of(kind), dtype);
      expect_planned(settings, 1, 2, what);
      settings.layout = {.tensor = 2, .pipeline = 3, .data = 2, .sequence = true};
      settings.zero = 1;
      expect_planned(settings, 1, 2, what + " on twelve ranks");
    }
  }
}

TEST(TracedStep, PlansRecomputationToTheByte) {
  for (const auto mode : {layers::Recompute::selective, layers::Recompute::full}) {
    for (const double dropout : {0.0, 0.1}) {
      engine::Settings settings = toy_settings();
      settings.recompute.mode = mode;
      settings.model.dropout = dropout;
      expect_planned(settings, 2, 0,
                     fmt::format("mode {}, dropout {}", static_cast<int>(mode), dropout));
    }
  }
}

TEST(TracedStep, PlansProductsIn8BitsToTheByte) {
  using precision::ScalingPolicy;
  for (const auto policy : {ScalingPolicy::delayed, ScalingPolicy::current, ScalingPolicy::block}) {
    for (const parallel::Layout& layout :
         {parallel::Layout{}, parallel::Layout{.tensor = 2, .sequence = true},
          parallel::Layout{.tensor = 2, .pipeline = 2, .data = 2}}) {
      engine::Settings settings = with(DType::bf16, false, 4, true);
      settings.split.data_shards = 2;
      settings.layout = layout;
      settings.zero = layout.data > 1 ? 1 : 0;
      settings.ragged = true;
      settings.fp8.emplace();
      settings.fp8->options.scaling = precision::ScalingOptions::of(policy);
      settings.fp8->first_wide = 1;
      expect_planned(
          settings, 2, 2,
          fmt::format("policy {}, {} ranks", static_cast<int>(policy), layout.num_ranks()));
    }
  }
}

/// A check's pass in bf16, and products that have fallen back to it, make again what codes stand
/// for.
TEST(TracedStep, PlansProductsThatFallBackToTheByte) {
  using precision::ScalingPolicy;
  for (const bool llama : {false, true}) {
    for (const auto policy : {ScalingPolicy::delayed, ScalingPolicy::current}) {
      for (const parallel::Layout& layout :
           {parallel::Layout{}, parallel::Layout{.tensor = 2, .pipeline = 2}}) {
        engine::Settings settings = llama ? testing::toy_llama_settings() : toy_settings();
        settings.weights = settings.activations = DType::bf16;
        settings.layout = layout;
        settings.fp8.emplace();
        settings.fp8->options.scaling = precision::ScalingOptions::of(policy);
        settings.fp8->guard.every = 1;
        expect_planned(settings, 2, 0,
                       fmt::format("{}, policy {}, {} ranks", settings.model.family,
                                   static_cast<int>(policy), layout.num_ranks()));
      }
    }
  }
}

/// Products in 8 bits keep a byte for each number of what they alone read, where bf16 keeps two: of
/// both norms' outputs and of the activation's.
TEST(TracedStep, CodesTakeHalfOfWhatProductsAloneRead) {
  engine::Settings settings = with(DType::bf16, false, 4, false);
  const int64_t wide = planned(settings, 2, 0)[0].of(device::MemoryClass::activations);
  const layers::LayerSpec& layer = settings.model.layer(0);
  const int64_t layers = settings.model.num_layers(), hidden = settings.model.hidden;
  const int64_t tokens = settings.micro_batch * settings.sequence_length();
  for (const int64_t first : {int64_t{0}, int64_t{1}}) {
    for (const auto policy :
         {precision::ScalingPolicy::delayed, precision::ScalingPolicy::current}) {
      engine::Settings narrow = settings;
      narrow.fp8.emplace();
      narrow.fp8->options.scaling = precision::ScalingOptions::of(policy);
      narrow.fp8->first_wide = first;
      const int64_t bytes = planned(narrow, 2, 0)[0].of(device::MemoryClass::activations);
      const int64_t codes = (layers - first) * tokens * (2 * hidden + layer.mlp.ffn);
      // Scales, a line of a cache for each product.
      EXPECT_LE(wide - bytes, codes) << first;
      EXPECT_GE(wide - bytes, codes - (layers - first) * 3 * 64) << first;
      narrow.fp8->options.weight_gradients = false;  // these want the numbers
      EXPECT_EQ(planned(narrow, 2, 0)[0].of(device::MemoryClass::activations), wide);
    }
  }
}

TEST(TracedStep, PlansRaggedSamplesToTheByteWhateverTheDocuments) {
  for (const int64_t context : {16, 200}) {  // within one block of keys, over several
    engine::Settings settings = toy_settings();
    settings.ragged = true;
    settings.model.context = context;
    expect_planned(settings, 2, 2, fmt::format("ragged, {} tokens", context));
  }
}

/// Stored probabilities are those of the pairs that exist: fewer with documents apart than planned.
TEST(TracedStep, BoundsMaterialisedAttentionOverDocuments) {
  engine::Settings settings = toy_settings();
  settings.ragged = true;
  testing::set_materialised(settings.model);
  const auto plan = planned(settings, 1, 2)[0];
  const auto actual = measured(settings, 1, 2)[0];
  EXPECT_LT(actual.of(device::MemoryClass::activations), plan.of(device::MemoryClass::activations));
  for (const auto same : {device::MemoryClass::weights, device::MemoryClass::gradients,
                          device::MemoryClass::optimizer, device::MemoryClass::workspace}) {
    EXPECT_EQ(actual.of(same), plan.of(same)) << name_of(same);
  }
}

TEST(TracedStep, PlansEveryRankToTheByte) {
  for (const parallel::Layout& layout :
       {parallel::Layout{.tensor = 2}, parallel::Layout{.tensor = 4},
        parallel::Layout{.pipeline = 2}, parallel::Layout{.data = 2}, parallel::Layout{2, 2, 2},
        parallel::Layout{.tensor = 2, .pipeline = 3, .sequence = true}}) {
    engine::Settings settings = toy_settings();
    settings.layout = layout;
    expect_planned(settings, 1, 2,
                   fmt::format("{} x {} x {}", layout.tensor, layout.pipeline, layout.data));
  }
}

/// A save brings together what is spread over data ranks: in workspace, at most a share of it each.
TEST(TracedStep, PlansSpreadStateToTheByte) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    engine::Settings settings = toy_settings();
    settings.weights = settings.activations = dtype;
    // A table larger than all that a step needs beside it.
    settings.model.hidden = 256;
    settings.model.vocab = 4096;
    settings.layout = {.tensor = 2, .data = 2};
    settings.zero = 1;
    expect_planned(settings, 1, 0, fmt::format("spread, {}", dtype));
  }
}

TEST(TracedStep, PlansSpreadStateOfEveryRankToTheByte) {
  for (const parallel::Layout& layout :
       {parallel::Layout{.data = 2},
        parallel::Layout{.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}}) {
    engine::Settings settings = toy_settings();
    settings.layout = layout;
    settings.zero = 1;
    expect_planned(settings, 1, 3, fmt::format("spread over {} ranks", layout.num_ranks()));
  }
}

TEST(TracedStep, PlansGroupedKeysToTheByte) {
  for (const parallel::Layout& layout :
       {parallel::Layout{}, parallel::Layout{.tensor = 2},
        parallel::Layout{.tensor = 4, .data = 2, .sequence = true}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      engine::Settings settings = megalith::testing::toy_llama_settings();
      testing::set_kv_heads(settings.model, 2);  // of four tensor shards
      settings.weights = settings.activations = dtype;
      settings.layout = layout;
      settings.zero = layout.data > 1 ? 1 : 0;
      expect_planned(settings, 2, 2, fmt::format("{} grouped, t{}", dtype, layout.tensor));
    }
  }
}

TEST(TracedStep, PlansLayersWithTheSameWeightsToTheByte) {
  for (const parallel::Layout& layout :
       {parallel::Layout{}, parallel::Layout{.pipeline = 2, .data = 2},
        parallel::Layout{.tensor = 2, .pipeline = 3, .sequence = true}}) {
    for (const int groups : {1, 2}) {
      engine::Settings settings = toy_settings();
      settings.model.layer_groups = groups;
      settings.layout = layout;
      settings.zero = layout.data > 1 ? 1 : 0;
      expect_planned(settings, 1, 2, fmt::format("{} stages, {} groups", layout.pipeline, groups));
    }
  }
}

TEST(TracedStep, PlansChunksToTheByte) {
  engine::Settings settings = toy_settings();
  settings.model.set_num_layers(5);
  settings.layout = {.pipeline = 2, .data = 2, .chunks = 2};
  settings.pipeline_schedule = parallel::ScheduleKind::interleaved;
  expect_planned(settings, 1, 2, "chunks");
}

engine::Settings with_head(engine::Settings settings, layers::HeadKind kind) {
  settings.model.head = testing::toy_sequence_settings(kind).model.head;
  return settings;
}

struct Change {
  const char* name;
  void (*apply)(engine::Settings&);
};

constexpr Change kLayouts[] = {
    {"t2", [](engine::Settings& s) { s.layout = {.tensor = 2}; }},
    {"t2 sequence", [](engine::Settings& s) { s.layout = {.tensor = 2, .sequence = true}; }},
    {"p2", [](engine::Settings& s) { s.layout = {.pipeline = 2}; }},
    {"p2 chunks",
     [](engine::Settings& s) {
       s.layout = {.pipeline = 2, .chunks = 2};
       s.pipeline_schedule = parallel::ScheduleKind::interleaved;
     }},
    {"t2 p2 chunks sequence",
     [](engine::Settings& s) {
       s.layout = {.tensor = 2, .pipeline = 2, .sequence = true, .chunks = 2};
       s.pipeline_schedule = parallel::ScheduleKind::interleaved;
     }},
};

constexpr Change kStorages[] = {
    {"all kept", [](engine::Settings&) {}},
    {"selective", [](engine::Settings& s) { s.recompute.mode = layers::Recompute::selective; }},
    {"full", [](engine::Settings& s) { s.recompute.mode = layers::Recompute::full; }},
    {"two layers full", [](engine::Settings& s) { s.recompute.full_layers = 2; }},
    {"bf16", [](engine::Settings& s) { s.weights = s.activations = DType::bf16; }},
    {"bf16 weights, f32 activations", [](engine::Settings& s) { s.weights = DType::bf16; }},
    {"f32 weights, bf16 activations", [](engine::Settings& s) { s.activations = DType::bf16; }},
    {"materialised", [](engine::Settings& s) { testing::set_materialised(s.model); }},
    {"materialised, selective, bf16, untied",
     [](engine::Settings& s) {
       testing::set_materialised(s.model);
       s.recompute.mode = layers::Recompute::selective;
       s.weights = s.activations = DType::bf16;
       s.model.head.tied = false;
     }},
    {"classes of sequences",
     [](engine::Settings& s) {
       s = with_head(s, layers::HeadKind::sequence_classification);
       s.ragged = true;
     }},
    {"numbers of sequences, bf16",
     [](engine::Settings& s) {
       s = with_head(s, layers::HeadKind::sequence_regression);
       s.weights = s.activations = DType::bf16;
     }},
    {"an encoder and a decoder",
     [](engine::Settings& s) {
       s.model = testing::toy_encoder_decoder_settings().model;
       s.decoder_length = 8;
     }},
    {"t5, bf16",
     [](engine::Settings& s) {
       s.model = testing::toy_family_settings(models::kT5).model;
       s.decoder_length = s.layout.sequence ? 12 : 7;
       s.weights = s.activations = DType::bf16;
     }},
    {"llama", [](engine::Settings& s) { s.model = testing::toy_llama_settings().model; }},
    {"llama, selective, bf16",
     [](engine::Settings& s) {
       s.model = testing::toy_llama_settings().model;
       s.recompute.mode = layers::Recompute::selective;
       s.weights = s.activations = DType::bf16;
     }},
};

TEST(TracedStep, PlansEveryStorageUnderEveryLayoutToTheByte) {
  for (const Change& layout : kLayouts) {
    for (const Change& storage : kStorages) {
      engine::Settings settings = toy_settings();
      layout.apply(settings);
      storage.apply(settings);
      settings.model.set_num_layers(5);
      expect_planned(settings, 1, 2, fmt::format("{}, {}", layout.name, storage.name));
    }
  }
}

TEST(TracedStep, MoreSavedIsMorePlanned) {
  engine::Settings settings = toy_settings();
  const auto none = planned(settings, 1, 0)[0];
  settings.recompute.mode = layers::Recompute::full;
  const auto full = planned(settings, 1, 0)[0];
  EXPECT_LT(full.of(device::MemoryClass::activations), none.of(device::MemoryClass::activations));
  EXPECT_EQ(full.of(device::MemoryClass::weights), none.of(device::MemoryClass::weights));
}

}  // namespace
}  // namespace megalith::account

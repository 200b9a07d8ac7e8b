// SPDX-License-Identifier: Apache-2.0
// Adapters of the rows of a batch: what a sequence gives depends on it and its adapter alone, under
// any layout, in any company and in any pieces; and is what a model with merged weights gives, but
// for rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "comm/backends.h"
#include "inference/inference_model.h"
#include "inference/sequence_reader.h"
#include "kernels/attention/kv_cache.h"
#include "testing/toy_adapter.h"
#include "testing/toy_blocks.h"
#include "testing/toy_model.h"

namespace megalith::inference {
namespace {

constexpr int64_t kTokens = 150;
/// Seeds from here on are of adapters of learned vectors, of factors with magnitudes, or of
/// bottlenecks.
constexpr uint64_t kVectors = 100, kScaled = 200, kBottlenecks = 300;

models::ModelSpec spec_named(std::string_view name) {
  if (name == "grouped") {
    models::ModelSpec spec = testing::toy_llama_settings().model;
    testing::set_kv_heads(spec, 2);  // of four tensor shards
    spec.context = kTokens;
    return spec;
  }
  if (name == "blocks") {  // whole ones on each of four ranks
    models::ModelSpec spec = models::kLlama.make(
        {.layers = 2, .hidden = 128, .heads = 4, .ffn = 256, .context = kTokens, .vocab = 100},
        "test");
    spec.init_std = 0.1;
    return spec;
  }
  models::ModelSpec spec =
      name == "toy" ? testing::toy_settings().model
                    : testing::toy_family_settings(models::family_named(name, "test")).model;
  spec.context = kTokens;
  spec.dropout = 0;
  return spec;
}

struct Base {
  const char* name;
  DType compute = DType::f32;
  std::optional<Format> blocks = {};
};

parameters::StorageFormats formats_of(const models::ModelSpec& spec, const Base& base) {
  return base.blocks ? testing::toy_formats(spec, *base.blocks) : parameters::StorageFormats{};
}

void fill(InferenceModel& model, device::Device& device) {
  testing::fill_blocks(model.parameters(), device);
  for (parameters::Parameter& parameter : model.parameters().all()) {
    if (!is_plain(parameter.format())) continue;
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    parameters::initial_value(parameter, 3, DType::f32, values.data());
    std::vector<bf16_t> narrow;
    for (const float value : values) narrow.push_back(to_bf16(value));
    const bool is_f32 = parameter.format() == Format::f32;
    device.wait(
        device.copy_to_device(parameter.mutable_compute(),
                              is_f32 ? static_cast<const void*>(values.data()) : narrow.data()));
  }
}

std::vector<int32_t> text(int first, size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((i * 7 + i / 5 + static_cast<size_t>(first) * 11) % 50);
  return ids;
}

/// A model on one rank of a layout, with the adapters of these seeds.
struct Rank {
  Rank(const Base& base, comm::Communicator& world, const parallel::Layout& layout,
       std::span<const uint64_t> seeds)
      : spec(spec_named(base.name)),
        device(device::make_cpu_device(1)),
        model(spec, *device, world,
              {.compute = base.compute,
               .tensor_shards = 4,
               .layout = layout,
               .formats = formats_of(spec, base)}) {
    fill(model, *device);
    for (const uint64_t seed : seeds) {
      if (seed >= kBottlenecks) {
        adapters.push_back(
            testing::toy_bottleneck_adapter(spec, model.parameters(), *device, seed));
        continue;
      }
      if (seed >= kScaled) {
        engine::ShardedModel& sharded = model.engine().model();
        adapters.push_back(testing::toy_scaled_adapter(spec, model.parameters(), sharded.exec(),
                                                       sharded.mesh().tensor(), seed));
        continue;
      }
      const auto make = seed < kVectors ? testing::toy_adapter : testing::toy_vector_adapter;
      adapters.push_back(make(spec, model.parameters(), *device, seed));
    }
  }
  models::ModelSpec spec;
  std::unique_ptr<device::Device> device;
  InferenceModel model;
  std::vector<std::unique_ptr<layers::Adapter>> adapters;
};

/// Scores with the adapter of all rows; then logits of a text that goes through the cache in
/// pieces, its rows having the adapter themselves.
std::vector<std::vector<double>> read(Rank& rank) {
  std::vector<std::vector<double>> all;
  InferenceEngine& engine = rank.model.engine();
  const std::vector<int32_t> ids = text(0, kTokens);
  const bool reads = rank.spec.is_encoder_decoder();
  rank.model.engine().model().set_adapter(rank.adapters[0].get());
  if (!rank.spec.is_causal()) {
    SequenceReader reader(engine.model());
    const Reading line{ids, {}};
    return reader.embed(std::span(&line, 1), kernels::Pooling::mean);
  }
  all.push_back(reads ? engine.score_target(std::span(ids).last(90), std::span(ids).subspan(1))
                      : engine.score(ids));
  KvCache cache =
      engine.begin(reads ? std::span(ids).last(90) : std::span(ids).first(1), kTokens).cache;
  for (const auto& [from, count] : {std::pair{0, 70}, {70, 1}, {71, 1}, {72, 78}}) {
    const auto logits = engine.extend(
        cache, std::span(ids).subspan(static_cast<size_t>(from), static_cast<size_t>(count)));
    all.emplace_back(logits.begin(), logits.end());
  }
  return all;
}

std::vector<std::vector<std::vector<double>>> read(const Base& base, const parallel::Layout& layout,
                                                   uint64_t seed) {
  std::vector<std::vector<std::vector<double>>> readings(static_cast<size_t>(layout.num_ranks()));
  comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
    Rank rank(base, world, layout, std::array<uint64_t, 1>{seed});
    readings[static_cast<size_t>(world.rank())] = read(rank);
  });
  return readings;
}

class AdapterLayout : public ::testing::TestWithParam<std::tuple<Base, parallel::Layout>> {};

TEST_P(AdapterLayout, HasTheBitsOfOneRank) {
  const auto& [base, layout] = GetParam();
  for (const uint64_t seed : {uint64_t{5}, kVectors, kScaled, kBottlenecks}) {
    const auto alone = read(base, {}, seed)[0];
    const auto readings = read(base, layout, seed);
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      auto mine = readings[static_cast<size_t>(rank)];
      ASSERT_EQ(mine.size(), alone.size());
      for (size_t i = 0; i < mine.size(); ++i) {
        const bool is_told = i == 0;  // to all ranks; logits are the last stage's
        if (is_told || parallel::coordinates_of(layout, rank).pipeline == layout.pipeline - 1) {
          EXPECT_EQ(mine[i], alone[i]) << "seed " << seed << " rank " << rank << ", reading " << i;
        }
      }
    }
  }
}

const auto kBases = ::testing::Values(
    Base{"toy"}, Base{"llama"}, Base{"grouped"}, Base{"t5"}, Base{"bert"}, Base{"albert"},
    Base{"llama", DType::bf16}, Base{"t5", DType::bf16}, Base{"blocks", DType::f32, Format::q8_0},
    Base{"blocks", DType::bf16, Format::q4_0});
INSTANTIATE_TEST_SUITE_P(
    All, AdapterLayout,
    ::testing::Combine(kBases, ::testing::Values(parallel::Layout{.tensor = 2},
                                                 parallel::Layout{.tensor = 4},
                                                 parallel::Layout{.pipeline = 2},
                                                 parallel::Layout{.tensor = 2, .pipeline = 2})));

class AdapterCompany : public ::testing::TestWithParam<Base> {};

/// Logits behind each of the rows' last tokens.
std::vector<std::vector<float>> logits_of(Rank& rank, const KvBlocks& blocks,
                                          std::span<const SequenceRows> rows) {
  std::vector<std::vector<float>> logits;
  rank.model.engine().step(blocks, rows, [&](std::span<const float> one) {
    logits.emplace_back(one.begin(), one.end());
  });
  return logits;
}

// Rows with adapters of all kinds, and with none, read at once: each as alone, those without as in
// a model that has no adapters.
TEST_P(AdapterCompany, ChangesNoBit) {
  const Base base = GetParam();
  comm::run_ranks(1, [&](comm::Communicator& world) {
    Rank rank(base, world, {},
              std::array<uint64_t, 6>{5, 6, kVectors, kScaled, kScaled + 1, kBottlenecks});
    constexpr std::array<int, 8> kAdapters = {0, -1, 3, 4, 5, 2, -1, 3};
    constexpr std::array<size_t, 8> kLengths = {3, 40, 1, 1, 70, 5, 1, 66};
    const KvBlocks blocks(rank.model.engine().model(),
                          std::vector<int64_t>(kv_groups(rank.spec).size(), 16));
    std::vector<std::vector<int32_t>> ids;
    std::vector<BlockTables> tables;
    std::vector<SequenceRows> rows;
    for (int i = 0; i < 8; ++i) {
      ids.push_back(text(i, kLengths[static_cast<size_t>(i)]));
      tables.emplace_back(kv_groups(rank.spec).size(), std::vector<int32_t>{2 * i, 2 * i + 1});
    }
    const auto adapter = [&](size_t i) -> const layers::Adapter* {
      return kAdapters[i] < 0 ? nullptr : rank.adapters[static_cast<size_t>(kAdapters[i])].get();
    };
    for (size_t i = 0; i < 8; ++i) {
      if (rank.spec.is_encoder_decoder())
        rank.model.engine().read(blocks, text(static_cast<int>(i) + 9, 33), tables[i], adapter(i));
      rows.push_back({.ids = ids[i],
                      .reach = kTokens,
                      .blocks = &tables[i],
                      .memory = rank.spec.is_encoder_decoder() ? 33 : 0,
                      .adapter = adapter(i)});
    }
    const auto together = logits_of(rank, blocks, rows);
    for (size_t i = 0; i < 8; ++i)
      EXPECT_EQ(logits_of(rank, blocks, std::span(rows).subspan(i, 1))[0], together[i]) << i;
    // The same ids under other adapters give other logits: nothing here is empty.
    rows[0].adapter = rank.adapters[1].get();
    const auto other = logits_of(rank, blocks, std::span(rows).first(1))[0];
    rows[0].adapter = nullptr;
    const auto none = logits_of(rank, blocks, std::span(rows).first(1))[0];
    EXPECT_NE(other, together[0]);
    EXPECT_NE(none, together[0]);
    EXPECT_NE(none, other);
  });
}

INSTANTIATE_TEST_SUITE_P(All, AdapterCompany,
                         ::testing::Values(Base{"toy"}, Base{"llama"}, Base{"t5"}, Base{"gemma2"},
                                           Base{"llama", DType::bf16},
                                           Base{"blocks", DType::f32, Format::q8_0},
                                           Base{"blocks", DType::bf16, Format::q4_0}));

class MergedWeights : public ::testing::TestWithParam<const char*> {};

/// Rows of w, and the bias, times l of outputs; or columns of w times that of inputs.
void multiply(InferenceModel& model, parameters::Parameter& weight,
              const layers::Adapter::Factors& factors) {
  const View w = weight.mutable_compute();
  const bool of_outputs = !factors.output_O.view.absent();
  const auto* const l = (of_outputs ? factors.output_O : factors.input_I).view.as<float>();
  for (int64_t o = 0; o < w.size(0); ++o)
    for (int64_t i = 0; i < w.size(1); ++i) w.row<float>(o)[i] *= l[of_outputs ? o : i];
  const std::string product = weight.name().substr(0, weight.name().rfind('.'));
  parameters::Parameter* const bias = model.parameters().find(product + ".bias");
  if (!of_outputs || bias == nullptr) return;
  for (int64_t o = 0; o < w.size(0); ++o) bias->mutable_compute().as<float>()[o] *= l[o];
}

// The reference: w + b a in double precision, with magnitudes times what scales its rows, or w
// times l, rounded once, in a model without adapters.
TEST_P(MergedWeights, GiveTheSameButForRounding) {
  for (const uint64_t seed : {uint64_t{5}, kVectors, kScaled})
    comm::run_ranks(1, [&](comm::Communicator& world) {
      Rank rank({GetParam()}, world, {}, std::array<uint64_t, 1>{seed});
      const auto adapted = read(rank);
      rank.model.engine().model().set_adapter(nullptr);
      std::set<std::string> merged_ones;  // layers may share weights
      for (parameters::Parameter& parameter : rank.model.parameters().all()) {
        const auto* const factors = rank.adapters[0]->find(parameter.name());
        if (factors == nullptr) continue;
        if (!merged_ones.insert(parameter.name()).second) continue;
        if (seed == kVectors) {
          multiply(rank.model, parameter, *factors);
          continue;
        }
        const View scale_O = factors->scale_O;
        const View w = parameter.mutable_compute(), a = factors->a_IR, b = factors->b_PO;
        for (int64_t o = 0; o < w.size(0); ++o) {
          for (int64_t i = 0; i < w.size(1); ++i) {
            double sum = w.row<float>(o)[i];
            for (int64_t r = 0; r < a.size(1); ++r)
              sum += static_cast<double>(b.row<float>(r)[o]) * a.row<float>(i)[r];
            if (!scale_O.absent()) sum *= static_cast<double>(scale_O.as<float>()[o]);
            w.row<float>(o)[i] = static_cast<float>(sum);
          }
        }
      }
      Rank none({GetParam()}, world, {}, std::array<uint64_t, 1>{5});
      none.adapters[0] = std::make_unique<layers::Adapter>(none.model.parameters(), *none.device,
                                                           layers::AdapterRanks{});
      const auto plain = read(none);
      rank.adapters[0] = std::move(none.adapters[0]);
      const auto merged = read(rank);
      ASSERT_EQ(merged.size(), adapted.size());
      double largest = 0, moved = 0, magnitude = 1;
      for (size_t i = 0; i < merged.size(); ++i) {
        ASSERT_EQ(merged[i].size(), adapted[i].size());
        for (size_t j = 0; j < merged[i].size(); ++j) {
          largest = std::max(largest, std::abs(merged[i][j] - adapted[i][j]));
          moved = std::max(moved, std::abs(merged[i][j] - plain[i][j]));
          magnitude = std::max(magnitude, std::abs(merged[i][j]));
        }
      }
      // A thousand roundings of 2^-24; what the adapter does is much more.
      EXPECT_LT(largest, 1000 * 0x1p-24 * magnitude) << GetParam() << seed;
      EXPECT_GT(moved, 0.01) << GetParam() << seed;
    });
}

INSTANTIATE_TEST_SUITE_P(All, MergedWeights,
                         ::testing::Values("toy", "llama", "grouped", "t5", "bert", "albert",
                                           "gpt_neox", "phi3", "gemma2"));

}  // namespace
}  // namespace megalith::inference

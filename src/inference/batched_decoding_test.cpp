// SPDX-License-Identifier: Apache-2.0
// Sequences that are read together, in any pieces, from any blocks, give the bits of each alone.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "comm/backends.h"
#include "inference/inference_model.h"
#include "kernels/attention/kv_cache.h"
#include "testing/toy_model.h"

namespace megalith::inference {
namespace {

constexpr int64_t kContext = 300;
constexpr int kSequences = 5;

models::ModelSpec spec_named(std::string_view name) {
  models::ModelSpec spec =
      name == "gpt2" ? testing::toy_settings().model
                     : testing::toy_family_settings(models::family_named(name, "test")).model;
  spec.context = kContext;
  spec.dropout = 0;
  return spec;
}

/// One text: what an encoder reads, and the tokens to go through the cache.
struct Text {
  std::vector<int32_t> read, ids;
};

Text text_of(const models::ModelSpec& spec, int sequence) {
  std::mt19937 random(static_cast<unsigned>(sequence) + 1);
  const auto tokens = [&](size_t count) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 50);
    return ids;
  };
  // Around the edges of blocks, so that some end with one.
  constexpr std::array<size_t, kSequences> kLengths = {64, 130, 7, 201, 129};
  const auto i = static_cast<size_t>(sequence);
  return {
      spec.is_encoder_decoder() ? tokens(kLengths[(i + 2) % kSequences]) : std::vector<int32_t>(),
      tokens(kLengths[i])};
}

InferenceModel::Options options_of(DType dtype, parallel::Layout layout = {}) {
  return {.compute = dtype, .tensor_shards = 2, .layout = layout};
}

void fill(InferenceModel& model, device::Device& device) {
  for (parameters::Parameter& parameter : model.parameters().all()) {
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    parameters::initial_value(parameter, 3, DType::f32, values.data());
    const bool is_f16 = model.parameters().storage().compute == DType::f16;
    std::vector<uint16_t> narrow;
    for (const float value : values)
      narrow.push_back(is_f16 ? to_f16(value).bits : to_bf16(value).bits);
    const bool is_f32 = model.parameters().storage().compute == DType::f32;
    device.wait(
        device.copy_to_device(parameter.mutable_compute(),
                              is_f32 ? static_cast<const void*>(values.data()) : narrow.data()));
  }
}

/// Logits after every token.
using Logits = std::vector<std::vector<float>>;

Logits alone(InferenceModel& model, const Text& text) {
  InferenceEngine& engine = model.engine();
  const bool reads = model.spec().is_encoder_decoder();
  KvCache cache = engine.begin(reads ? text.read : text.ids, kContext).cache;
  Logits logits;
  for (const int32_t& id : text.ids) logits.push_back(engine.extend(cache, std::span(&id, 1)));
  return logits;
}

/// Blocks in an order that no two sequences share.
class ShuffledBlocks {
 public:
  ShuffledBlocks(const models::ModelSpec& spec, int64_t count) {
    for (size_t g = 0; g < kv_groups(spec).size(); ++g) {
      std::vector<int32_t>& free = free_.emplace_back(static_cast<size_t>(count));
      std::iota(free.begin(), free.end(), 0);
      std::ranges::shuffle(free, random_);
    }
  }
  BlockTables take(int64_t positions) {
    BlockTables tables(free_.size());
    for (size_t g = 0; g < free_.size(); ++g) {
      for (int64_t i = 0; i < kernels::kv_cache_blocks(positions); ++i) {
        tables[g].push_back(free_[g].back());
        free_[g].pop_back();
      }
    }
    return tables;
  }

 private:
  std::mt19937 random_{11};
  std::vector<std::vector<int32_t>> free_;
};

struct Choice {
  const char* family;
  DType dtype;
};

class BatchedDecoding : public ::testing::TestWithParam<Choice> {};

TEST_P(BatchedDecoding, HasTheBitsOfEachSequenceAlone) {
  const auto& [family, dtype] = GetParam();
  const models::ModelSpec spec = spec_named(family);
  const auto device = device::make_cpu_device(2);
  InferenceModel model(spec, *device, options_of(dtype));
  fill(model, *device);
  InferenceEngine& engine = model.engine();
  constexpr int64_t kBlocks = 32;
  KvBlocks blocks(engine.model(), std::vector<int64_t>(kv_groups(spec).size(), kBlocks));
  ShuffledBlocks pool(spec, kBlocks);
  std::vector<Text> texts;
  std::vector<Logits> expected;
  std::vector<BlockTables> tables;
  for (int s = 0; s < kSequences; ++s) {
    texts.push_back(text_of(spec, s));
    expected.push_back(alone(model, texts.back()));
    tables.push_back(pool.take(210));
    if (spec.is_encoder_decoder()) engine.read(blocks, texts.back().read, tables.back());
  }
  std::vector<size_t> past(kSequences);
  std::mt19937 random(5);
  for (bool left = true; left;) {
    std::vector<SequenceRows> rows;
    std::vector<std::pair<size_t, size_t>> asked;  // sequence and token whose logits come
    left = false;
    for (size_t s = 0; s < kSequences; ++s) {
      const size_t rest = texts[s].ids.size() - past[s];
      left = left || rest > 0;
      // Some rest, some take one, some many.
      const size_t count = std::min<size_t>(rest, std::array<size_t, 4>{0, 1, 1, 40}[random() % 4]);
      if (count == 0) continue;
      const auto wanted = static_cast<int64_t>(random() % (count + 1));  // of the last tokens
      rows.push_back({.ids = std::span(texts[s].ids).subspan(past[s], count),
                      .past = static_cast<int64_t>(past[s]),
                      .reach = kContext,
                      .blocks = &tables[s],
                      .memory = std::ssize(texts[s].read),
                      .num_logits = wanted});
      for (size_t n = count - static_cast<size_t>(wanted); n < count; ++n)
        asked.emplace_back(s, past[s] + n);
      past[s] += count;
    }
    if (rows.empty()) continue;
    const std::vector<float> logits = engine.step(blocks, rows).logits;
    ASSERT_EQ(std::ssize(logits), std::ssize(asked) * spec.vocab);
    for (size_t i = 0; i < asked.size(); ++i) {
      const auto [s, token] = asked[i];
      const auto from = logits.begin() + static_cast<ptrdiff_t>(i) * spec.vocab;
      ASSERT_EQ(std::vector<float>(from, from + spec.vocab), expected[s][token])
          << "sequence " << s << " token " << token;
    }
  }
}

/// Logprobs of a prompt, read in pieces beside others, are those that scoring gives.
TEST_P(BatchedDecoding, LogprobsOfPromptsAreThoseOfScores) {
  const auto& [family, dtype] = GetParam();
  const models::ModelSpec spec = spec_named(family);
  const auto device = device::make_cpu_device(2);
  InferenceModel model(spec, *device, options_of(dtype));
  fill(model, *device);
  KvBlocks blocks(model.engine().model(), std::vector<int64_t>(kv_groups(spec).size(), 16));
  ShuffledBlocks pool(spec, 16);
  const bool reads = spec.is_encoder_decoder();
  std::array<Text, 2> texts = {text_of(spec, 1), text_of(spec, 3)};
  const std::array<BlockTables, 2> tables = {pool.take(210), pool.take(210)};
  for (size_t s = 0; reads && s < 2; ++s) {
    texts[s].ids[0] = static_cast<int32_t>(spec.decoder_start);
    model.engine().read(blocks, texts[s].read, tables[s]);
  }
  std::array<std::vector<double>, 2> logprobs;
  for (size_t at = 0; at < 201; at += 50) {
    std::vector<SequenceRows> rows;
    std::vector<size_t> of;
    for (size_t s = 0; s < 2; ++s) {
      const auto ids = std::span<const int32_t>(texts[s].ids);
      if (at >= ids.size()) continue;
      const size_t count = std::min<size_t>(50, ids.size() - at);
      const bool is_last = at + count == ids.size();
      rows.push_back({.ids = ids.subspan(at, count),
                      .past = static_cast<int64_t>(at),
                      .reach = std::ssize(ids),
                      .blocks = &tables[s],
                      .memory = std::ssize(texts[s].read),
                      .num_logits = 0,
                      .targets = ids.subspan(at + 1, count - (is_last ? 1 : 0))});
      of.insert(of.end(), rows.back().targets.size(), s);
    }
    const auto result = model.engine().step(blocks, rows);
    EXPECT_TRUE(result.logits.empty());
    ASSERT_EQ(result.logprobs.size(), of.size());
    for (size_t i = 0; i < of.size(); ++i) logprobs[of[i]].push_back(result.logprobs[i]);
  }
  for (size_t s = 0; s < 2; ++s) {
    const auto ids = std::span<const int32_t>(texts[s].ids);
    EXPECT_EQ(logprobs[s], reads ? model.engine().score_target(texts[s].read, ids.subspan(1))
                                 : model.engine().score(ids))
        << s;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, BatchedDecoding,
    ::testing::Values(Choice{"gpt2", DType::f32}, Choice{"gpt2", DType::bf16},
                      Choice{"llama", DType::bf16}, Choice{"gpt_neox", DType::f32},
                      Choice{"mistral", DType::bf16}, Choice{"gemma2", DType::f32},
                      Choice{"gemma3_text", DType::bf16}, Choice{"phi3", DType::f32},
                      Choice{"t5", DType::f32}, Choice{"t5", DType::bf16},
                      Choice{"gpt2", DType::f16}, Choice{"gemma2", DType::f16}));

/// What a layer with a window keeps is a group of its own.
TEST(KvGroups, AreOnesOfTheSameWindow) {
  EXPECT_EQ(kv_groups(spec_named("gpt2")), (std::vector<KvGroup>{{}}));
  EXPECT_EQ(kv_groups(spec_named("t5")), (std::vector<KvGroup>{{}, {0, true}}));
  const std::vector<KvGroup> groups = kv_groups(spec_named("gemma3_text"));
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_NE(groups[0].window, groups[1].window);
}

TEST(KvBlocks, TakeTheBytesThatAreSaid) {
  for (const char* family : {"gpt2", "gemma3_text", "t5"}) {
    const models::ModelSpec spec = spec_named(family);
    const auto device = device::make_cpu_device(1);
    InferenceModel model(spec, *device, options_of(DType::bf16));
    device::Arena& arena = device->arena(device::MemoryClass::activations);
    const int64_t before = arena.in_use();
    int64_t expected = 0, count = 3;
    std::vector<int64_t> counts;
    for (size_t g = 0; g < kv_groups(spec).size(); ++g) counts.push_back(++count);
    const KvBlocks blocks(model.engine().model(), counts);
    for (size_t g = 0; g < counts.size(); ++g) expected += blocks.bytes(g);
    EXPECT_EQ(arena.in_use() - before, expected) << family;
  }
}

}  // namespace
}  // namespace megalith::inference

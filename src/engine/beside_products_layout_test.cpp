// SPDX-License-Identifier: Apache-2.0
// What trains beside a model's products, low-rank factors with and without magnitudes, learned
// vectors and bottlenecks, or as virtual tokens
// before texts, themselves or behind an encoder: no layout, micro-batch or recomputation changes a
// bit of it. factors_test.cpp, vectors_test.cpp and virtual_tokens_test.cpp have what each of them
// is.
#include "testing/beside_products.h"

namespace megalith::engine {
namespace {

using config::PromptEncoderKind;
using testing::Variant;
using testing::with_bottlenecks;
using testing::with_encoder;
using testing::with_factors;
using testing::with_magnitudes;
using testing::with_prompt;
using testing::with_vectors;

constexpr int kSteps = 4;

Settings grouped() {  // more tensor shards than key/value heads
  Settings settings = testing::toy_llama_settings();
  testing::set_kv_heads(settings.model, 2);
  settings.split.tensor_shards = 4;
  return settings;
}

template <typename With>
std::vector<Variant> variants_with(const With& with) {
  std::vector<Variant> all;
  all.push_back({"f32", with(testing::toy_settings())});
  all.push_back({"llama f32", with(testing::toy_llama_settings())});
  all.push_back({"grouped keys", with(grouped())});
  Settings narrow = testing::toy_llama_settings();
  narrow.weights = narrow.activations = DType::bf16;
  narrow.ragged = true;
  all.push_back({"llama bf16", with(narrow)});
  // Products of both stacks, and those that make keys and values of the encoder's rows.
  Settings t5 = testing::toy_family_settings(models::kT5);
  t5.ragged = true;
  all.push_back({"t5", with(t5)});
  // The weights stay, and so does what is kept of inputs; gradients have scales all the same, and
  // what is computed again in backward has the codes of forward.
  using precision::ScalingPolicy;
  all.push_back(
      {"delayed", with(testing::in_fp8(testing::toy_settings(), ScalingPolicy::delayed))});
  for (const auto policy : {ScalingPolicy::current, ScalingPolicy::block})
    all.push_back({policy == ScalingPolicy::current ? "current" : "block",
                   with(testing::in_fp8(testing::toy_llama_settings(), policy))});
  return all;
}

/// A classifier, whose head trains too.
Settings classes() {
  Settings settings = testing::toy_sequence_settings(layers::HeadKind::sequence_classification);
  settings.ragged = true;
  settings.trains_head = true;
  return settings;
}

std::vector<Variant> factors() {
  std::vector<Variant> all = variants_with([](const Settings& s) { return with_factors(s); });
  all.push_back({"classes", with_factors(classes())});
  all.push_back({"dropout", with_factors(testing::toy_settings(), 0.2)});
  all.push_back(
      {"delayed, dropout",
       with_factors(testing::in_fp8(testing::toy_settings(), precision::ScalingPolicy::delayed),
                    0.2)});
  return all;
}
std::vector<Variant> magnitudes() {
  std::vector<Variant> all = variants_with(with_magnitudes);
  all.push_back({"classes", with_magnitudes(classes())});
  return all;
}
std::vector<Variant> bottlenecks() {
  std::vector<Variant> all = variants_with(with_bottlenecks);
  // They are for decoders alone.
  std::erase_if(all, [](const Variant& v) { return v.settings.model.is_encoder_decoder(); });
  return all;
}
std::vector<Variant> vectors() {
  std::vector<Variant> all = variants_with(with_vectors);
  all.push_back({"classes", with_vectors(classes())});
  return all;
}
std::vector<Variant> prompts() {
  std::vector<Variant> all = variants_with(with_prompt);
  Settings ragged = testing::toy_settings();
  ragged.ragged = true;
  all.push_back({"ragged", with_prompt(ragged)});
  return all;
}

std::vector<Variant> encoders() {
  std::vector<Variant> all;
  for (const auto kind : {PromptEncoderKind::mlp, PromptEncoderKind::lstm}) {
    const char* const name = kind == PromptEncoderKind::mlp ? "mlp" : "lstm";
    all.push_back({name, with_encoder(testing::toy_settings(), kind)});
    Settings narrow = grouped();
    narrow.weights = narrow.activations = DType::bf16;
    narrow.ragged = true;
    all.push_back({name, with_encoder(narrow, kind)});
  }
  all.push_back(
      {"t5", with_encoder(testing::toy_family_settings(models::kT5), PromptEncoderKind::mlp)});
  return all;
}

class BesideProducts : public ::testing::TestWithParam<std::vector<Variant> (*)()> {
 protected:
  void expect_same_under(const parallel::Layout& layout, int zero = 0) {
    for (const Variant& variant : GetParam()()) {
      if (layout.sequence && std::string_view(variant.name).ends_with("dropout"))
        continue;  // refused
      Settings other = variant.settings;
      other.layout = layout;
      other.zero = zero;
      EXPECT_EQ(testing::SerialRun(variant.settings, kSteps).difference(other), "") << variant.name;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Factors, BesideProducts, ::testing::Values(&factors));
INSTANTIATE_TEST_SUITE_P(Magnitudes, BesideProducts, ::testing::Values(&magnitudes));
INSTANTIATE_TEST_SUITE_P(Bottlenecks, BesideProducts, ::testing::Values(&bottlenecks));
INSTANTIATE_TEST_SUITE_P(Vectors, BesideProducts, ::testing::Values(&vectors));
INSTANTIATE_TEST_SUITE_P(Prompts, BesideProducts, ::testing::Values(&prompts));
INSTANTIATE_TEST_SUITE_P(Encoders, BesideProducts, ::testing::Values(&encoders));

TEST_P(BesideProducts, TensorRanks) {
  expect_same_under({.tensor = 2});
  expect_same_under({.tensor = 4});
}
TEST_P(BesideProducts, PipelineRanks) { expect_same_under({.pipeline = 3}); }
TEST_P(BesideProducts, DataRanks) { expect_same_under({.data = 2}); }
TEST_P(BesideProducts, SequenceParallel) {
  expect_same_under({.tensor = 2, .sequence = true});
  expect_same_under({.tensor = 4, .sequence = true});
}
TEST_P(BesideProducts, SpreadState) {
  expect_same_under({.data = 2}, 1);
  expect_same_under({.tensor = 2, .pipeline = 3, .data = 2, .sequence = true}, 1);
}

TEST_P(BesideProducts, RecomputationThreadsAndMicroBatches) {
  for (const Variant& variant : GetParam()()) {
    const testing::SerialRun serial(variant.settings, kSteps);
    for (const auto mode : {layers::Recompute::selective, layers::Recompute::full}) {
      Settings other = variant.settings;
      other.recompute.mode = mode;
      other.micro_batch = 1;
      EXPECT_EQ(serial.difference(other, {.threads = 2}), "") << variant.name;
    }
  }
}

}  // namespace
}  // namespace megalith::engine

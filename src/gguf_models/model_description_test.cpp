// SPDX-License-Identifier: Apache-2.0
// Every architecture's keys both ways, and everything that a file may ask for and has no code here.
#include "gguf_models/model_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace megalith::gguf_models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr models::Sizes kSizes{.layers = 7,
                               .hidden = 48,
                               .heads = 6,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .ffn = 40,
                               .context = 96,
                               .vocab = 130};

/// What a file with these keys says; the tensors that a model of the family usually has.
ModelDescription as_file(const ModelSpec& model) {
  const Architecture& architecture = architecture_of(model);
  const WrittenDescription written = describe(model);
  ModelDescription file;
  file.metadata.emplace("general.architecture", gguf::Value::text(architecture.name));
  for (const auto& [key, value] : written.keys) file.metadata.insert_or_assign(key, value);
  file.factors = written.factors;
  file.vocab_rows = model.vocab;
  const layers::LayerSpec& layer = model.layers.front();
  if (!model.head.tied) file.tensors.insert("output.weight");
  if (layer.attention.qkv_bias) {
    file.tensors.insert("blk.0.attn_q.bias");
    file.tensors.insert("blk.0.attn_qkv.bias");
  }
  if (layer.attention.output_bias) file.tensors.insert("blk.0.attn_output.bias");
  if (layer.mlp.bias) file.tensors.insert("blk.0.ffn_down.bias");
  return file;
}

ModelSpec usual(std::string_view family, models::Sizes sizes = kSizes) {
  if (family == "gpt2" || family == "gpt_neox") sizes.kv_heads = sizes.head_dim = 0;
  ModelSpec model = models::family_named(family, "test").make(sizes, "test");
  if (family == "mistral")
    model.for_each_layer([](layers::LayerSpec& layer) { layer.attention.window = 0; });
  return model;
}

std::string fault_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no fault";
}

std::string fault_of(const ModelDescription& file) {
  return fault_of([&] { read_model(file, "a.gguf"); });
}

class Architectures : public ::testing::TestWithParam<const Architecture*> {};

TEST_P(Architectures, AUsualModelComesBack) {
  const ModelSpec model = usual(GetParam()->family);
  EXPECT_EQ(read_model(as_file(model), "a.gguf"), model);
}

TEST_P(Architectures, EverySizeIsAKeyOfItsOwn) {
  const ModelSpec model = usual(GetParam()->family);
  for (const char* key : {"context_length", "embedding_length", "block_count",
                          "feed_forward_length", "attention.head_count"}) {
    ModelDescription file = as_file(model);
    const std::string full = std::string(GetParam()->name) + "." + key;
    file.metadata.erase(full);
    EXPECT_EQ(fault_of(file), "a.gguf: the key " + full + " is missing");
    file.metadata.insert_or_assign(full, gguf::Value::text("3"));
    EXPECT_EQ(fault_of(file), "a.gguf: " + full + " is one string, must be a whole number");
    file.metadata.insert_or_assign(full, gguf::Value::u32(0));
    EXPECT_EQ(fault_of(file), "a.gguf: " + full + " is 0, must be at least 1");
  }
}

TEST_P(Architectures, AKeyThatNobodyKnowsIsRefused) {
  ModelDescription file = as_file(usual(GetParam()->family));
  const std::string key = std::string(GetParam()->name) + ".expert_count";
  file.metadata.emplace(key, gguf::Value::u32(0));
  EXPECT_EQ(fault_of(file), "no fault");
  file.metadata.insert_or_assign(key, gguf::Value::u32(8));
  EXPECT_EQ(fault_of(file), "a.gguf: " + key + " is not supported by this program");
}

TEST_P(Architectures, SettingsOfTheSpecComeBack) {
  ModelSpec model = usual(GetParam()->family);
  model.head.tied = !model.head.tied;
  model.final_norm.eps = 3e-7;
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layer.norm.eps = 3e-7;
    const bool is_local = model.family == "gemma3_text" && layer.attention.window > 0;
    if (layer.attention.rope.dim > 0 && !is_local) layer.attention.rope.base = 500000;
  });
  EXPECT_EQ(read_model(as_file(model), "a.gguf"), model);
}

TEST_P(Architectures, WhatTheFormatCannotSayIsNotWritten) {
  ModelSpec model = usual(GetParam()->family);
  model.for_each_layer(
      [](layers::LayerSpec& layer) { layer.mlp.activation = layers::Activation::relu; });
  EXPECT_THAT(fault_of([&] { describe(model); }),
              HasSubstr("the GGUF format cannot express this model: /layers/"));
  model = usual(GetParam()->family);
  model.layers.back().mlp.ffn += 8;
  EXPECT_THAT(fault_of([&] { describe(model); }), HasSubstr("/layers/"));
}

INSTANTIATE_TEST_SUITE_P(All, Architectures, ::testing::ValuesIn(architectures()),
                         [](const auto& each) { return std::string(each.param->name); });

TEST(ModelDescription, MistralIsLlama) {
  ModelSpec model = usual("mistral");
  const ModelSpec again = read_model(as_file(model), "a.gguf");
  EXPECT_EQ(again.family, "llama");
  model.family = "llama";
  EXPECT_EQ(again, model);
  model.family = "mistral";
  model.for_each_layer([](layers::LayerSpec& layer) { layer.attention.window = 32; });
  EXPECT_THAT(fault_of([&] { describe(model); }), HasSubstr("window"));
}

TEST(ModelDescription, BiasesAreThoseOfTheTensors) {
  ModelDescription file = as_file(usual("llama"));
  file.tensors.insert({"blk.0.attn_q.bias", "blk.0.ffn_down.bias"});
  const ModelSpec model = read_model(file, "a.gguf");
  EXPECT_TRUE(model.layers.back().attention.qkv_bias);
  EXPECT_FALSE(model.layers.back().attention.output_bias);
  EXPECT_TRUE(model.layers.back().mlp.bias);
}

TEST(ModelDescription, GemmasWindowsCapsAndScale) {
  ModelSpec model = usual("gemma2");
  for (size_t i = 0; i < model.layers.size(); i += 2) model.layers[i].attention.window = 24;
  model.for_each_layer([](layers::LayerSpec& layer) { layer.attention.softcap = 12; });
  model.head.softcap = 7;
  EXPECT_EQ(read_model(as_file(model), "a.gguf"), model);
  std::swap(model.layers[0].attention.window, model.layers[1].attention.window);
  EXPECT_THAT(fault_of([&] { describe(model); }), HasSubstr("window"));

  // The 27B of Gemma 2 and of Gemma 3 divide scores by the square root of hidden / heads.
  for (const auto& [family, layers] : {std::pair{"gemma2", 46}, std::pair{"gemma3_text", 62}}) {
    models::Sizes sizes = kSizes;
    sizes.layers = layers;
    model = usual(family, sizes);
    EXPECT_THAT(fault_of([&] { describe(model); }), HasSubstr("scale")) << family;
    model.for_each_layer(
        [](layers::LayerSpec& layer) { layer.attention.scale = 1 / std::sqrt(8.0); });
    EXPECT_EQ(read_model(as_file(model), "a.gguf"), model) << family;
  }
}

TEST(ModelDescription, Gemma3sPattern) {
  ModelSpec model = usual("gemma3_text");
  ASSERT_EQ(model.layers[5].attention.window, 0);
  ModelDescription file = as_file(model);
  EXPECT_FALSE(file.metadata.contains("gemma3.attention.sliding_window_pattern"));
  // A period of three, layer by layer, with angles of its own.
  for (size_t i = 0; i < model.layers.size(); ++i) {
    layers::AttentionSpec& a = model.layers[i].attention;
    a.window = i % 3 == 2 ? 0 : 20;
    a.rope.base = a.window == 0 ? 1e6 : 20000;
    a.rope.scaling = a.window == 0 ? layers::RopeScaling::linear : layers::RopeScaling::none;
    a.rope.factor = a.window == 0 ? 8 : 1;
  }
  file = as_file(model);
  EXPECT_EQ(read_model(file, "a.gguf"), model);
  constexpr const char* kPattern = "gemma3.attention.sliding_window_pattern";
  file.metadata.insert_or_assign(kPattern, gguf::Value::u32(3));
  EXPECT_EQ(read_model(file, "a.gguf"), model);
  file.metadata.insert_or_assign(kPattern, gguf::Value::booleans({true, false}));
  EXPECT_THAT(fault_of(file), HasSubstr("has 2 entries for 7 layers"));
  file.metadata.insert_or_assign(kPattern, gguf::Value::text("x"));
  EXPECT_THAT(fault_of(file), HasSubstr("must be a whole number"));
}

TEST(ModelDescription, OfOthersTheOwnKeys) {
  ModelSpec model = usual("phi3");
  model.for_each_layer([](layers::LayerSpec& layer) {
    layer.attention.window = 33;
    layer.attention.rope.dim = 12;
  });
  EXPECT_EQ(read_model(as_file(model), "a.gguf"), model);
  model = usual("gpt_neox");
  model.for_each_layer([](layers::LayerSpec& layer) { layer.parallel = false; });
  EXPECT_EQ(read_model(as_file(model), "a.gguf"), model);
}

TEST(ModelDescription, RefusalsNameTheKey) {
  const auto with = [](const char* key, const gguf::Value& value) {
    ModelDescription file = as_file(usual("llama"));
    file.metadata.insert_or_assign(key, value);
    return fault_of(file);
  };
  EXPECT_THAT(with("general.architecture", gguf::Value::text("mamba")),
              HasSubstr("general.architecture mamba is not supported; this program reads llama"));
  EXPECT_EQ(fault_of(ModelDescription{}), "a.gguf: the key general.architecture is missing");
  EXPECT_THAT(with("general.architecture", gguf::Value::u32(3)), HasSubstr("must be a text"));
  EXPECT_THAT(with("general.type", gguf::Value::text("adapter")), HasSubstr("is adapter, not a"));
  EXPECT_THAT(with("split.count", gguf::Value::u32(2)), HasSubstr("one of 2 parts"));
  EXPECT_THAT(with("llama.attention.value_length", gguf::Value::u32(8)), HasSubstr("differs from"));
  EXPECT_THAT(with("llama.attention.head_count_kv", gguf::Value::i32s(std::vector<int32_t>{2, 2})),
              HasSubstr("an array of 2 i32, must be a whole number"));
  EXPECT_THAT(with("llama.rope.dimension_count", gguf::Value::u32(8)), HasSubstr("not the 16 of"));
  EXPECT_THAT(with("llama.attention.causal", gguf::Value::boolean(false)), HasSubstr("causal"));
  EXPECT_THAT(with("llama.attention.sliding_window", gguf::Value::u32(8)),
              HasSubstr("llama.attention.sliding_window is not supported"));
  EXPECT_THAT(with("llama.attention.layer_norm_rms_epsilon", gguf::Value::f32(NAN)),
              HasSubstr("which is no number"));
  EXPECT_THAT(with("llama.block_count", gguf::Value::u32(4000000000)), HasSubstr("layers is 4000"));
  ModelSpec model = usual("gpt2");
  model.family = "bert";
  EXPECT_THAT(fault_of([&] { describe(model); }), HasSubstr("models of the family bert"));
}

TEST(ModelDescription, WithoutAVocabularySizeTheTableSaysIt) {
  ModelDescription file = as_file(usual("llama"));
  file.metadata.erase("llama.vocab_size");
  file.vocab_rows = 77;
  EXPECT_EQ(read_model(file, "a.gguf").vocab, 77);
}

TEST(ModelDescription, SpecialIds) {
  const SpecialIds ids{{5, 9}, 3};
  gguf::Metadata metadata;
  for (const auto& [key, value] : special_keys(ids)) metadata.emplace(key, value);
  const SpecialIds again = special_ids(metadata, 10);
  EXPECT_THAT(again.end, ElementsAre(5, 9));
  EXPECT_EQ(again.begin, 3);
  EXPECT_THAT(special_ids(metadata, 9).end, ElementsAre(5));
  EXPECT_EQ(special_ids(metadata, 3).begin, std::nullopt);
  metadata.insert_or_assign("tokenizer.ggml.eot_token_id", gguf::Value::u32(5));
  EXPECT_THAT(special_ids(metadata, 10).end, ElementsAre(5));
}

}  // namespace
}  // namespace megalith::gguf_models

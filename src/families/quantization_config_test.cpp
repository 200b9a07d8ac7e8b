// SPDX-License-Identifier: Apache-2.0
#include "families/quantization_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::models {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const json& config) {
  try {
    parse_quantization_config(config, "config.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

/// As DeepSeek and Qwen 3 publish them.
json blocks() {
  return {{"quant_method", "fp8"},
          {"activation_scheme", "dynamic"},
          {"fmt", "e4m3"},
          {"weight_block_size", {128, 64}},
          {"modules_to_not_convert", {"lm_head"}}};
}

/// As llm-compressor writes FP8_DYNAMIC.
json compressed() {
  const json weights{
      {"num_bits", 8},         {"type", "float"},       {"symmetric", true},
      {"dynamic", false},      {"strategy", "channel"}, {"observer", "minmax"},
      {"group_size", nullptr}, {"actorder", nullptr},   {"observer_kwargs", json::object()}};
  const json inputs{{"num_bits", 8}, {"type", "float"}, {"dynamic", true}, {"strategy", "token"}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "float-quantized"},
          {"quantization_status", "compressed"},
          {"global_compression_ratio", 1.2},
          {"ignore", {"lm_head"}},
          {"kv_cache_scheme", nullptr},
          {"sparsity_config", json::object()},
          {"version", "0.10"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", weights},
              {"input_activations", inputs},
              {"output_activations", nullptr}}}}}};
}

TEST(QuantizationConfig, ReadsWhatIsPublished) {
  const Fp8Config of_blocks = parse_quantization_config(blocks(), "config.json");
  EXPECT_EQ(of_blocks.block_rows, 128);
  EXPECT_EQ(of_blocks.block_columns, 64);
  json of_tensors = blocks();
  of_tensors["weight_block_size"] = nullptr;
  of_tensors["activation_scheme"] = "static";
  EXPECT_EQ(parse_quantization_config(of_tensors, "config.json").block_rows, 0);
  EXPECT_EQ(parse_quantization_config(compressed(), "config.json").block_rows, 0);
  json both = compressed();
  both["config_groups"]["group_0"]["weights"]["strategy"] = "block";
  both["config_groups"]["group_0"]["weights"]["block_structure"] = {128, 128};
  EXPECT_EQ(parse_quantization_config(both, "config.json").block_columns, 128);
}

TEST(QuantizationConfig, WhatIsWrittenIsRead) {
  const nlohmann::ordered_json written =
      quantization_config({"lm_head", "model.layers.0.mlp.up_proj"});
  EXPECT_EQ(parse_quantization_config(json::parse(written.dump()), "config.json").block_rows, 0);
  EXPECT_EQ(written["quant_method"], "compressed-tensors");
  EXPECT_EQ(written["config_groups"]["group_0"]["weights"]["strategy"], "channel");
  EXPECT_EQ(written["ignore"].size(), 2u);
}

TEST(QuantizationConfig, OthersAreRefusedByName) {
  EXPECT_THAT(refusal({{"quant_method", "gptq"}}),
              AllOf(HasSubstr("quant_method"), HasSubstr("gptq")));
  EXPECT_THAT(refusal(json::array()), HasSubstr("must be an object"));
  const auto changed = [&](json config, const std::string& pointer, const json& value) {
    config[json::json_pointer(pointer)] = value;
    return refusal(config);
  };
  EXPECT_THAT(changed(blocks(), "/fmt", "e5m2"), AllOf(HasSubstr("fmt"), HasSubstr("e5m2")));
  EXPECT_THAT(changed(blocks(), "/weight_block_size", {128}), HasSubstr("weight_block_size"));
  EXPECT_THAT(changed(blocks(), "/weight_block_size", {128, 0}), HasSubstr("weight_block_size"));
  EXPECT_THAT(changed(blocks(), "/rotation", "hadamard"), HasSubstr("rotation"));
  EXPECT_THAT(changed(compressed(), "/format", "pack-quantized"), HasSubstr("pack-quantized"));
  EXPECT_THAT(changed(compressed(), "/kv_cache_scheme", {{"num_bits", 8}}),
              HasSubstr("kv_cache_scheme"));
  EXPECT_THAT(changed(compressed(), "/sparsity_config", {{"format", "dense"}}),
              HasSubstr("sparsity_config"));
  EXPECT_THAT(changed(compressed(), "/config_groups", json::object()), HasSubstr("config_groups"));
  json two = compressed();
  two["config_groups"]["group_0"]["weights"]["block_structure"] = {128, 128};
  two["config_groups"]["group_1"] = two["config_groups"]["group_0"];
  EXPECT_EQ(refusal(two), "");
  EXPECT_THAT(changed(two, "/config_groups/group_1/weights/block_structure", {64, 128}),
              AllOf(HasSubstr("config_groups"), HasSubstr("64 x 128")));
  const std::string group = "/config_groups/group_0/", weights = group + "weights/";
  EXPECT_THAT(changed(compressed(), group + "output_activations", {{"num_bits", 8}}),
              HasSubstr("group_0.output_activations"));
  EXPECT_THAT(changed(compressed(), weights + "num_bits", 4), HasSubstr("weights.num_bits 4"));
  EXPECT_THAT(changed(compressed(), weights + "type", "int"), HasSubstr("weights.type"));
  EXPECT_THAT(changed(compressed(), weights + "strategy", "group"), HasSubstr("strategy"));
  EXPECT_THAT(changed(compressed(), weights + "symmetric", false), HasSubstr("symmetric"));
  EXPECT_THAT(changed(compressed(), weights + "dynamic", true), HasSubstr("dynamic"));
}

}  // namespace
}  // namespace megalith::models

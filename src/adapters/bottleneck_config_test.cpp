// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "adapters/peft_config.h"
#include "base/error.h"

namespace megalith::adapters {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

/// As adapters 1.x writes it for "double_seq_bn".
Json usual() {
  return Json::parse(R"({
    "config": {
      "adapter_residual_before_ln": false, "cross_adapter": false, "dropout": 0.0,
      "factorized_phm_W": true, "factorized_phm_rule": false,
      "hypercomplex_nonlinearity": "glorot-uniform", "init_weights": "bert", "inv_adapter": null,
      "inv_adapter_reduction_factor": null, "is_parallel": false, "learn_phm": true,
      "leave_out": [], "ln_after": false, "ln_before": false, "mh_adapter": true,
      "non_linearity": "swish", "original_ln_after": true, "original_ln_before": false,
      "output_adapter": true, "phm_bias": true, "phm_c_init": "normal", "phm_dim": 4,
      "phm_init_range": 0.0001, "phm_layer": false, "phm_rank": 1, "reduction_factor": 16,
      "residual_before_ln": true, "scaling": 1.0, "shared_W_phm": false, "shared_phm_rule": true,
      "stochastic_depth": 0.0, "use_gating": false},
    "hidden_size": 64, "model_class": "LlamaForCausalLM", "model_name": "base",
    "model_type": "llama", "name": "mine", "version": "adapters.1.2.0"})");
}

TEST(BottleneckConfig, ReadsWhatAdapterHubWrites) {
  const PeftConfig config = parse_peft_config(usual().dump(), "adapter_config.json");
  EXPECT_EQ(std::get<Bottlenecks>(config).name, "mine");
}

TEST(BottleneckConfig, RefusesByName) {
  const std::pair<Json, const char*> cases[] = {
      {{{"mh_adapter", false}}, "config.mh_adapter false is not supported"},
      {{{"output_adapter", false}}, "config.output_adapter false"},
      {{{"original_ln_before", true}}, "config.original_ln_before true"},
      {{{"ln_after", true}}, "config.ln_after true"},
      {{{"is_parallel", true}}, "config.is_parallel true"},
      {{{"scaling", 4.0}}, "config.scaling 4 is not supported"},
      {{{"scaling", "learned"}}, "config.scaling"},
      {{{"non_linearity", "relu"}}, "config.non_linearity \"relu\" is not supported"},
      {{{"inv_adapter", "nice"}}, "config.inv_adapter"},
      {{{"leave_out", {0}}}, "config.leave_out"},
      {{{"phm_layer", true}}, "config.phm_layer"},
      {{{"architecture", "prefix_tuning"}}, "config.architecture"},
      {{{"something_new", 1}}, "something_new"}};
  for (const auto& [change, words] : cases) {
    Json json = usual();
    json["config"].update(change);
    try {
      parse_peft_config(json.dump(), "adapter_config.json");
      ADD_FAILURE() << words;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
  Json json = usual();
  json.erase("name");
  EXPECT_THROW(parse_peft_config(json.dump(), "test"), UserError);
}

TEST(BottleneckConfig, TensorsGoByTheLayerOfTheModelsOwnFolder) {
  EXPECT_THAT(bottleneck_tensors("model.layers.11.mlp.down_proj.weight", false, "mine"),
              ElementsAre("model.layers.11.output_adapters.adapters.mine.adapter_down.0.weight",
                          "model.layers.11.output_adapters.adapters.mine.adapter_down.0.bias",
                          "model.layers.11.output_adapters.adapters.mine.adapter_up.weight",
                          "model.layers.11.output_adapters.adapters.mine.adapter_up.bias"));
  EXPECT_EQ(bottleneck_tensors("transformer.h.0.attn.c_proj.weight", true, "x")[2],
            "transformer.h.0.attention_adapters.adapters.x.adapter_up.weight");
}

}  // namespace
}  // namespace megalith::adapters

// SPDX-License-Identifier: Apache-2.0
#include "adapters/peft_config.h"

#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace megalith::adapters {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

/// As peft 0.21 writes it.
Json usual() {
  return Json::parse(R"({
    "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null,
    "auto_mapping": null, "base_model_name_or_path": "base", "bias": "none",
    "corda_config": null, "ensure_weight_tying": false, "eva_config": null,
    "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true,
    "init_lora_weights": true, "kasa_config": null, "layer_replication": null,
    "layers_pattern": null, "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 16,
    "lora_bias": false, "lora_dropout": 0.1, "megatron_config": null,
    "megatron_core": "megatron.core", "modules_to_save": null, "peft_type": "LORA",
    "peft_version": "0.21.2", "qalora_group_size": 16, "r": 4, "rank_pattern": {},
    "revision": null, "target_modules": ["v_proj", "q_proj"], "target_parameters": null,
    "task_type": "CAUSAL_LM", "trainable_token_indices": null, "use_bdlora": null,
    "use_dora": false, "use_qalora": false, "use_rslora": false})");
}

Lora parsed(const Json& change) {
  Json json = usual();
  json.update(change);
  return std::get<Lora>(parse_peft_config(json.dump(), "adapter_config.json"));
}

/// As peft 0.21 writes it.
Ia3 parsed_ia3(const Json& change) {
  Json json = Json::parse(R"({
    "auto_mapping": null, "base_model_name_or_path": "base", "exclude_modules": null,
    "fan_in_fan_out": false, "feedforward_modules": ["down_proj"], "inference_mode": true,
    "init_ia3_weights": true, "modules_to_save": null, "peft_type": "IA3",
    "peft_version": "0.21.2", "revision": null,
    "target_modules": ["v_proj", "down_proj", "k_proj"], "task_type": "CAUSAL_LM"})");
  json.update(change);
  return std::get<Ia3>(parse_peft_config(json.dump(), "adapter_config.json"));
}

/// As peft 0.21 writes them.
VirtualPrompt parsed_prompt(const Json& change) {
  Json json = Json::parse(R"({
    "auto_mapping": null, "base_model_name_or_path": "base", "inference_mode": true,
    "modules_to_save": null, "num_attention_heads": 4, "num_layers": 2,
    "num_transformer_submodules": 1, "num_virtual_tokens": 8, "peft_type": "PROMPT_TUNING",
    "peft_version": "0.21.2", "prompt_tuning_init": "RANDOM", "prompt_tuning_init_text": null,
    "revision": null, "task_type": "CAUSAL_LM", "token_dim": 64, "tokenizer_kwargs": null,
    "tokenizer_name_or_path": null})");
  json.update(change);
  return std::get<VirtualPrompt>(parse_peft_config(json.dump(), "adapter_config.json"));
}

std::string prompt_fault(const Json& change) {
  try {
    parsed_prompt(change);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(PeftConfig, ReadsVirtualTokens) {
  EXPECT_EQ(parsed_prompt(Json::object()).tokens, 8);
  // What made the rows has gone into them.
  const Json encoder = {{"peft_type", "P_TUNING"},   {"encoder_reparameterization_type", "MLP"},
                        {"encoder_hidden_size", 32}, {"encoder_num_layers", 2},
                        {"encoder_dropout", 0.0},    {"num_virtual_tokens", 3}};
  EXPECT_EQ(parsed_prompt(encoder).tokens, 3);
  EXPECT_THAT(prompt_fault({{"num_virtual_tokens", 0}}), HasSubstr("num_virtual_tokens"));
  EXPECT_THAT(prompt_fault({{"num_virtual_tokens", nullptr}}), HasSubstr("num_virtual_tokens"));
  EXPECT_THAT(prompt_fault({{"num_virtual_tokens", 1 << 17}}), HasSubstr("from 1 to 65536"));
  EXPECT_THAT(prompt_fault({{"num_transformer_submodules", 2}}),
              HasSubstr("num_transformer_submodules must be 1 unless task_type is SEQ_2_SEQ_LM"));
  const Json two = {{"task_type", "SEQ_2_SEQ_LM"}, {"num_transformer_submodules", 2}};
  EXPECT_EQ(parsed_prompt(two).tokens, 8);
  EXPECT_EQ(parsed_prompt(two).unread, 8);
  EXPECT_EQ(parsed_prompt({{"task_type", "SEQ_2_SEQ_LM"}}).unread, 0);
  EXPECT_THAT(prompt_fault({{"task_type", "SEQ_2_SEQ_LM"}, {"num_transformer_submodules", 3}}),
              HasSubstr("must be 1 or 2"));
  EXPECT_THAT(prompt_fault({{"modules_to_save", {"lm_head"}}}), HasSubstr("modules_to_save"));
  EXPECT_THAT(prompt_fault({{"num_tasks", 2}}), HasSubstr("num_tasks"));
  EXPECT_THAT(prompt_fault({{"peft_type", "MULTITASK_PROMPT_TUNING"}}),
              HasSubstr("peft_type \"MULTITASK_PROMPT_TUNING\" is not supported"));
}

TEST(PeftConfig, ReadsWhatPeftWrites) {
  const Lora lora = parsed(Json::object());
  EXPECT_EQ(lora.rank, 4);
  EXPECT_EQ(lora.alpha, 16);
  EXPECT_FALSE(lora.rank_stabilised);
  EXPECT_FALSE(lora.has_magnitudes);
  EXPECT_EQ(lora.scale_of("model.layers.0.self_attn.q_proj"), 4);
  EXPECT_TRUE(lora.adapts("model.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(lora.adapts("model.layers.0.self_attn.k_proj"));
}

TEST(PeftConfig, ReadsEveryKeyThatCounts) {
  const Lora lora = parsed({{"use_rslora", true},
                            {"use_dora", true},
                            {"lora_alpha", 3.5},
                            {"target_modules", "all-linear"},
                            {"exclude_modules", ".*k_proj"},
                            {"layers_to_transform", 1},
                            {"layers_pattern", "layers"},
                            {"rank_pattern", {{"q_proj", 9}}},
                            {"alpha_pattern", {{"v_proj", 7}}}});
  EXPECT_TRUE(lora.rank_stabilised);
  EXPECT_TRUE(lora.has_magnitudes);
  EXPECT_EQ(lora.layers, (std::vector<int64_t>{1}));
  EXPECT_EQ(lora.layer_patterns, (std::vector<std::string>{"layers"}));
  EXPECT_EQ(lora.rank_of("a.q_proj"), 9);
  EXPECT_EQ(lora.scale_of("a.v_proj"), 7 / 2.0);
  EXPECT_EQ(lora.scale_of("a.o_proj"), 3.5 / 2.0);
  EXPECT_TRUE(lora.adapts("a.o_proj"));
  EXPECT_FALSE(lora.adapts("a.k_proj"));
}

// The order of the file, not of the alphabet.
TEST(PeftConfig, TheFirstPatternOfTheFileCounts) {
  std::string text = usual().dump();
  const std::string empty = "\"rank_pattern\":{}";
  text.replace(text.find(empty), empty.size(), R"("rank_pattern":{"q.*":3,"[pq]_proj":5})");
  EXPECT_EQ(std::get<Lora>(parse_peft_config(text, "test")).rank_of("a.q_proj"), 3);
}

TEST(PeftConfig, ReadsLearnedVectors) {
  const Ia3 ia3 = parsed_ia3(Json::object());
  EXPECT_TRUE(ia3.adapts("model.layers.0.self_attn.k_proj"));
  EXPECT_FALSE(ia3.adapts("model.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(ia3.of_inputs("model.layers.0.self_attn.k_proj"));
  EXPECT_TRUE(ia3.of_inputs("model.layers.0.mlp.down_proj"));
  const Ia3 other = parsed_ia3({{"target_modules", "all-linear"},
                                {"exclude_modules", "[a-z.]*k_proj"},
                                {"feedforward_modules", ".*o_proj"}});
  EXPECT_TRUE(other.adapts("a.o_proj"));
  EXPECT_TRUE(other.of_inputs("a.o_proj"));
  EXPECT_FALSE(other.of_inputs("a.down_proj"));
  EXPECT_FALSE(other.adapts("a.k_proj"));
  EXPECT_TRUE(parsed_ia3({{"feedforward_modules", Json::array()}}).feedforward_ends.empty());
}

void expect_refused(const std::function<void()>& parse, const char* words) {
  try {
    parse();
    ADD_FAILURE() << words;
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("adapter_config.json")) << words;
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST(PeftConfig, RefusesOfLearnedVectorsByName) {
  const std::pair<Json, const char*> cases[] = {
      {{{"feedforward_modules", nullptr}}, "feedforward_modules is missing"},
      {{{"feedforward_modules", {1}}}, "feedforward_modules must be a list of names"},
      {{{"feedforward_modules", "(?=q)q_proj"}}, "feedforward_modules \"(?=q)q_proj\""},
      {{{"target_modules", Json::array()}}, "target_modules names no modules"},
      {{{"modules_to_save", {"lm_head"}}}, "modules_to_save"},
      {{{"r", 8}}, "r\" is not known here"},
      {{{"something_new", true}}, "something_new\" is not known here"}};
  for (const auto& [change, words] : cases)
    expect_refused([&, &change = change] { parsed_ia3(change); }, words);
}

TEST(PeftConfig, RefusesByName) {
  const std::pair<Json, const char*> cases[] = {
      {{{"peft_type", "LOHA"}}, "peft_type \"LOHA\" is not supported"},
      {{{"bias", "all"}}, "bias \"all\" is not supported"},
      {{{"use_dora", 1}}, "use_dora"},
      {{{"lora_bias", true}}, "lora_bias true is not supported"},
      {{{"use_qalora", true}}, "use_qalora true is not supported"},
      {{{"modules_to_save", {"lm_head"}}}, "modules_to_save"},
      {{{"target_parameters", {"experts"}}}, "target_parameters"},
      {{{"trainable_token_indices", {1}}}, "trainable_token_indices"},
      {{{"layer_replication", {{0, 1}}}}, "layer_replication"},
      {{{"alora_invocation_tokens", {1}}}, "alora_invocation_tokens"},
      {{{"init_lora_weights", "pissa"}}, "init_lora_weights \"pissa\" changes the base"},
      {{{"use_bdlora", {{"nblocks", 2}}}}, "use_bdlora\" is not known here"},
      {{{"something_new", true}}, "something_new\" is not known here"},
      {{{"r", 0}}, "r must be a whole number from 1"},
      {{{"r", 1 << 20}}, "r must be a whole number from 1"},
      {{{"lora_alpha", "8"}}, "lora_alpha is \"8\", must be a number"},
      {{{"target_modules", nullptr}}, "target_modules names no modules"},
      {{{"target_modules", Json::array()}}, "target_modules names no modules"},
      {{{"target_modules", {1}}}, "target_modules must be a list of names"},
      {{{"target_modules", "(?=q)q_proj"}}, "target_modules \"(?=q)q_proj\""},
      {{{"rank_pattern", {{"q_proj", 0}}}}, "rank_pattern of q_proj must be a whole number"},
      {{{"alpha_pattern", {{"q_proj", "x"}}}}, "alpha_pattern of q_proj must be a number"},
      {{{"layers_to_transform", {-1}}}, "layers_to_transform must be numbers"},
      {{{"layers_pattern", "lay(ers"}}, "layers_pattern \"lay(ers\" is not a plain name"}};
  for (const auto& [change, words] : cases)
    expect_refused([&, &change = change] { parsed(change); }, words);
  for (const char* text : {"", "[]", "{", "{\"r\": 1, \"r\": 2}"})
    EXPECT_THROW(parse_peft_config(text, "test"), UserError) << text;
}

// Expressions of exponential size are refused within a budget, never searched with steps back.
TEST(PeftConfig, HostileExpressionsAreBounded) {
  EXPECT_THROW(parsed({{"target_modules", "(a|b)*a(a|b){25}"}}), UserError);
  const Lora lora = parsed({{"target_modules", "(a*)*b"}});
  EXPECT_FALSE(lora.adapts(std::string(100'000, 'a')));
  EXPECT_TRUE(lora.adapts(std::string(100'000, 'a') + "b"));
}

}  // namespace
}  // namespace megalith::adapters

// SPDX-License-Identifier: Apache-2.0
// config.json: what the ecosystem writes is understood, what would change the arithmetic without
// code for it is refused by its key, and nothing makes the parser do anything else.
#include "families/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "families/families.h"

namespace megalith::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

HuggingFaceConfig parse(const std::string& text) {
  return parse_hugging_face_config(text, "config.json");
}
/// A small valid file with `change` merged into it (null removes nothing, it is a value here).
HuggingFaceConfig parse_with(const Json& change) {
  Json json = {{"model_type", "gpt2"}, {"vocab_size", 300}, {"n_embd", 64},
               {"n_head", 4},          {"n_layer", 2},      {"n_positions", 32}};
  json.update(change);
  return parse(json.dump());
}

TEST(HuggingFace, absent_keys_are_gpt2_small) {
  const HuggingFaceConfig config = parse(R"({"model_type":"gpt2"})");
  ModelSpec expected = gpt2({});
  expected.dropout = 0.1;
  EXPECT_EQ(config.model, expected);
  EXPECT_EQ(config.model.layers.size(), 12);
  EXPECT_EQ(config.model.layers[0].mlp.ffn, 3072);
  EXPECT_THAT(config.end_ids, ElementsAre(50256));
  EXPECT_EQ(config.model.num_parameters(), 124439808);  // the published count
}

TEST(HuggingFace, absent_keys_are_llama_7b) {
  const HuggingFaceConfig config = parse(R"({"model_type":"llama"})");
  EXPECT_EQ(config.model.num_parameters(), 6738415616);  // the published count
  EXPECT_EQ(config.model.layers[0].norm.eps, 1e-6);
  EXPECT_EQ(config.model.layers[0].attention.rope.dim, 128);
  EXPECT_FALSE(config.model.head.tied);
  EXPECT_THAT(config.end_ids, ElementsAre(2));
}

TEST(HuggingFace, both_spellings_are_one_setting) {
  const ModelSpec a =
      parse(R"({"architectures":["GPT2LMHeadModel"],"hidden_size":64,"num_hidden_layers":3,
                "num_attention_heads":8,"max_position_embeddings":128,"n_inner":null,
                "dtype":"bfloat16"})")
          .model;
  EXPECT_EQ(a, [] {
    ModelSpec model = gpt2({.layers = 3, .hidden = 64, .heads = 8, .context = 128});
    model.dropout = 0.1;
    return model;
  }());
  EXPECT_EQ(parse_with({{"hidden_size", 64}}).model.hidden, 64);
  EXPECT_THROW(parse_with({{"hidden_size", 32}}), UserError);
}

/// Small, awkward: heads wider than hidden / heads, one key/value head for four.
Json llama_json() {
  return {{"model_type", "llama"},
          {"vocab_size", 300},
          {"hidden_size", 20},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 1},
          {"head_dim", 8},
          {"intermediate_size", 28},
          {"max_position_embeddings", 64},
          {"tie_word_embeddings", true}};
}

TEST(HuggingFace, rope_of_transformers_4_and_5_are_one) {
  Json four = llama_json(), five = llama_json();
  const Json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 32}};
  four["rope_theta"] = 500000.0;
  four["rope_scaling"] = scaling;
  four["rope_scaling"]["type"] = "llama3";
  five["rope_parameters"] = scaling;
  five["rope_parameters"]["rope_type"] = "llama3";
  five["rope_parameters"]["rope_theta"] = 500000.0;
  const ModelSpec a = parse(four.dump()).model, b = parse(five.dump()).model;
  EXPECT_EQ(a, b);
  const layers::RopeSpec& rope = a.layers[1].attention.rope;
  EXPECT_EQ(rope.scaling, layers::RopeScaling::llama3);
  EXPECT_EQ(rope.base, 500000);
  EXPECT_EQ(rope.factor, 8);
  EXPECT_EQ(rope.original_context, 32);
  EXPECT_EQ(rope.dim, 8);
  EXPECT_EQ(parse(hugging_face_config(a, DType::f32, {2})).model, a);
}

TEST(HuggingFace, swish_is_silu) {
  Json json = llama_json();
  json["hidden_act"] = "swish";
  json["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 1.0}};
  EXPECT_EQ(parse(json.dump()).model, parse(llama_json().dump()).model);
}

TEST(HuggingFace, the_original_context_of_longrope_stands_where_readers_look) {
  Json json = llama_json();
  json["rope_scaling"] = {{"rope_type", "longrope"},
                          {"short_factor", {1, 1, 1.5, 2}},
                          {"long_factor", {2, 3, 4, 5}},
                          {"original_max_position_embeddings", 32}};
  const ModelSpec model = parse(json.dump()).model;
  const std::string text = hugging_face_config(model, DType::f32, {2});
  EXPECT_EQ(Json::parse(text).at("original_max_position_embeddings"), 32);
  EXPECT_EQ(parse(text).model, model);
}

TEST(HuggingFace, what_a_llama_asks_for_without_code_is_refused) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
           {"hidden_act", "gelu"},
           {"sliding_window", 128},
           {"partial_rotary_factor", 0.5},
           {"rope_parameters", Json{{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}},
           {"rope_scaling",
            Json{{"type", "linear"}, {"factor", 2.0}, {"partial_rotary_factor", 0.5}}},
           {"num_key_value_heads", 0},
           {"num_key_value_heads", 3},
           {"head_dim", 7},
           {"rope_scaling", Json{{"type", "ntk"}, {"factor", 2.0}}},
           {"rope_scaling", 2},
           {"quantization_config", Json::object()}}) {
    Json json = llama_json();
    json[key] = value;
    EXPECT_THROW(parse(json.dump()), UserError) << key << " " << value;
  }
}

// Multipliers of other models hide in files of this type: what nobody knows is not passed over.
TEST(HuggingFace, what_nobody_knows_is_refused_by_its_key) {
  const auto fault_of = [](const Json& json) {
    try {
      parse(json.dump());
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* key : {"attention_scale", "logit_scale", "embedding_multiplier", "auto_map"}) {
    Json json = llama_json();
    json[key] = 0.5;
    EXPECT_THAT(fault_of(json), HasSubstr(key));
    json[key] = nullptr;
    EXPECT_EQ(fault_of(json), "");
    json[key] = Json::object();
    EXPECT_EQ(fault_of(json), "");
  }
  Json json = llama_json();
  json["rope_interleaved"] = false;
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"beta_fast", 32}};
  for (const char* key : {"architectures", "torch_dtype", "transformers_version", "use_cache",
                          "_name_or_path", "pad_token_id", "pretraining_tp"})
    json[key] = 1;
  EXPECT_EQ(fault_of(json), "");
  json["rope_scaling"]["llama_4_scaling_beta"] = 0.1;
  EXPECT_THAT(fault_of(json), HasSubstr("rope_scaling.\"llama_4_scaling_beta\""));
}

// Files of the hub hold keys that transformers once wrote, or writes and does not read.
TEST(HuggingFace, published_files_open) {
  const Json published = Json::parse(R"({
    "_num_labels": 1, "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256,
    "id2label": {"0": "LABEL_0"}, "initializer_range": 0.02, "is_decoder": true,
    "label2id": {"LABEL_0": 0}, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024,
    "n_embd": 768, "n_head": 12, "n_inner": null, "n_layer": 12, "n_positions": 1024,
    "n_special": 0, "output_past": true, "predict_special_tokens": true, "pruned_heads": {},
    "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
    "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
    "tf_legacy_loss": false, "tie_encoder_decoder": false, "use_bfloat16": false,
    "vocab_size": 50257, "xla_device": true})");
  EXPECT_EQ(parse(published.dump()).model, parse(R"({"model_type":"gpt2"})").model);
  Json pruned = published;
  pruned["pruned_heads"] = {{"0", {1}}};
  EXPECT_THROW(parse(pruned.dump()), UserError);
}

TEST(HuggingFace, a_length_that_transformers_does_not_read_is_passed_over) {
  EXPECT_EQ(parse_with({{"n_positions", 513}, {"n_ctx", 512}}).model.context, 513);
  Json json = llama_json();
  json["max_sequence_length"] = 32;
  EXPECT_EQ(parse(json.dump()).model, parse(llama_json().dump()).model);
}

TEST(HuggingFace, end_ids_are_a_number_or_a_list_inside_the_vocabulary) {
  EXPECT_THAT(parse_with({{"eos_token_id", 7}}).end_ids, ElementsAre(7));
  EXPECT_THAT(parse_with({{"eos_token_id", {7, 9, 300, -1}}}).end_ids, ElementsAre(7, 9));
  EXPECT_THAT(parse_with({{"eos_token_id", 50256}}).end_ids, IsEmpty());
  EXPECT_THAT(parse_with({{"eos_token_id", nullptr}}).end_ids, IsEmpty());
  EXPECT_THAT(parse_with(Json::object()).end_ids, IsEmpty());
  EXPECT_EQ(parse_end_ids("{}", 10, "g"), std::nullopt);
  EXPECT_THROW(parse_with({{"eos_token_id", "x"}}), UserError);
}

TEST(HuggingFace, what_has_no_code_is_refused_by_its_key) {
  const std::vector<std::pair<Json, const char*>> cases = {
      {{{"model_type", "mamba"}}, "model_type"},
      {{{"model_type", 3}}, "model_type"},
      {{{"model_type", nullptr}}, "model_type"},
      {{{"activation_function", "relu"}}, "activation_function"},
      {{{"scale_attn_weights", false}}, "scale_attn_weights"},
      {{{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx"},
      {{{"add_cross_attention", true}}, "add_cross_attention"},
      {{{"quantization_config", Json::object()}}, "quantization_config"},
      {{{"tie_word_embeddings", "yes"}}, "tie_word_embeddings"},
      {{{"vocab_size", "300"}}, "vocab_size"},
      {{{"vocab_size", 300.0}}, "vocab_size"},
      {{{"vocab_size", true}}, "vocab_size"},
      {{{"vocab_size", Json::array({300})}}, "vocab_size"},
      {{{"vocab_size", 0}}, "vocab"},
      {{{"vocab_size", -5}}, "vocab"},
      {{{"vocab_size", 18446744073709551615U}}, "vocab_size"},
      {{{"n_embd", 4611686018427387904}}, "hidden"},
      {{{"n_embd", 66}}, "heads"},
      {{{"n_layer", 1000000000}}, "layers"},
      {{{"n_inner", 0}}, "n_inner"},
      {{{"layer_norm_epsilon", 0}}, "epsilon"},
      {{{"layer_norm_epsilon", "1e-5"}}, "layer_norm_epsilon"},
      {{{"resid_pdrop", 1.5}, {"embd_pdrop", 1.5}, {"attn_pdrop", 1.5}}, "dropout"},
  };
  for (const auto& [change, key] : cases) {
    try {
      parse_with(change);
      ADD_FAILURE() << change << " was taken";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(key)) << change;
      EXPECT_THAT(error.what(), HasSubstr("config.json"));
    }
  }
}

TEST(HuggingFace, no_damage_does_more_than_an_error) {
  const std::string good = R"({"model_type":"gpt2","n_embd":64,"n_head":4,)"
                           R"("eos_token_id":[1,2],"initializer_range":0.02})";
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = good;
    for (unsigned n = random() % 4; n-- > 0;) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = "0123456789eE+-.\"{}[]:,ntf \\x\xff"[random() % 28];
      } else {
        text.erase(at, 1 + random() % 9);
      }
      if (text.empty()) break;
    }
    try {
      parse(text).model.check("result");
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_THROW(parse(std::string(1 << 20, '[')), UserError);
  EXPECT_THROW(parse(""), UserError);
  EXPECT_THROW(parse("[]"), UserError);
}

TEST(HuggingFace, a_written_config_reads_back_as_itself) {
  for (const int64_t ffn : {384, 100}) {
    for (const bool tied : {true, false}) {
      for (const auto activation : {layers::Activation::gelu_tanh, layers::Activation::gelu_erf}) {
        ModelSpec a =
            gpt2({.layers = 3, .hidden = 96, .heads = 6, .ffn = ffn, .context = 77, .vocab = 1000});
        a.for_each_layer([&](layers::LayerSpec& layer) {
          layer.norm.eps = 1e-6;
          layer.mlp.activation = activation;
        });
        a.final_norm.eps = 1e-6;
        a.dropout = 0.25;
        a.init_std = 0.01;
        a.head.tied = tied;
        for (const std::vector<int32_t>& ids : {std::vector<int32_t>{}, {5}, {5, 6}}) {
          const std::string text = hugging_face_config(a, DType::bf16, ids);
          const HuggingFaceConfig back = parse(text);
          EXPECT_EQ(back.end_ids, ids);
          EXPECT_EQ(back.model, a);
          EXPECT_EQ(Json::parse(text).at("torch_dtype"), "bfloat16");
        }
      }
    }
  }
}

TEST(HuggingFace, what_a_format_cannot_say_is_named) {
  const auto refuses = [](const ModelSpec& model, const char* what) {
    try {
      check_expressible(model);
      ADD_FAILURE() << what << " was taken";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  };
  ModelSpec model = gpt2({.hidden = 64, .heads = 4});
  model.layers[0].attention.kv_heads = 2;
  refuses(model, "kv_heads");
  model = gpt2({.hidden = 64, .heads = 4});
  model.layers[1].mlp.ffn = 100;
  refuses(model, "ffn");
  model = llama({.hidden = 64, .heads = 4});
  model.layers[0].attention.window = 8;
  refuses(model, "window");
  refuses(llama({.hidden = 20, .heads = 3, .head_dim = 8}), "hidden 20");
  model = llama({.hidden = 64, .heads = 4});
  model.for_each_layer([](layers::LayerSpec& layer) { layer.attention.materialised = true; });
  check_expressible(model);  // how it trains is nobody's but ours
}

}  // namespace
}  // namespace megalith::models

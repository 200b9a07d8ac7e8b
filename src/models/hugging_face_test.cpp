// SPDX-License-Identifier: Apache-2.0
// config.json: what the ecosystem writes is understood, what would change the arithmetic without
// code for it is refused by its key, and nothing makes the parser do anything else.
#include "models/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"

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
  const HuggingFaceConfig config = parse(R"({"model_type":"gpt2","future_key":{"a":[1]}})");
  const Architecture& a = config.architecture;
  EXPECT_EQ(a.vocab, 50257);
  EXPECT_EQ(a.context, 1024);
  EXPECT_EQ(a.hidden, 768);
  EXPECT_EQ(a.layers, 12);
  EXPECT_EQ(a.heads, 12);
  EXPECT_EQ(a.kv_heads, 12);
  EXPECT_EQ(a.ffn, 3072);
  EXPECT_EQ(a.mlp, MlpKind::gelu_tanh);
  EXPECT_EQ(a.norm_eps, 1e-5);
  EXPECT_EQ(a.dropout, 0.1);
  EXPECT_TRUE(a.tied);
  EXPECT_TRUE(a.bias);
  EXPECT_THAT(config.end_ids, ElementsAre(50256));
  EXPECT_EQ(a.num_parameters(), 124439808);  // the published count
}

TEST(HuggingFace, both_spellings_are_one_setting) {
  const Architecture a =
      parse(R"({"architectures":["GPT2LMHeadModel"],"hidden_size":64,"num_hidden_layers":3,
                "num_attention_heads":8,"max_position_embeddings":128,"n_inner":null,
                "dtype":"bfloat16"})")
          .architecture;
  EXPECT_EQ(a.hidden, 64);
  EXPECT_EQ(a.layers, 3);
  EXPECT_EQ(a.heads, 8);
  EXPECT_EQ(a.context, 128);
  EXPECT_EQ(a.ffn, 256);
  EXPECT_EQ(parse_with({{"hidden_size", 64}}).architecture.hidden, 64);
  EXPECT_THROW(parse_with({{"hidden_size", 32}}), UserError);
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
      {{{"model_type", "llama"}}, "model_type"},
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
      {{{"n_inner", 0}}, "ffn"},
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
  const std::string good =
      R"({"model_type":"gpt2","n_embd":64,"n_head":4,"eos_token_id":[1,2],"initializer_range":0.02})";
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
      parse(text).architecture.check("result");
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
  Architecture a;
  a.layers = 3;
  a.hidden = 96;
  a.heads = a.kv_heads = 6;
  a.context = 77;
  a.vocab = 1000;
  a.dropout = 0.25;
  a.norm_eps = 1e-6;
  a.init_std = 0.01;
  for (const int64_t ffn : {384, 100}) {
    for (const bool tied : {true, false}) {
      for (const MlpKind mlp : {MlpKind::gelu_tanh, MlpKind::gelu_erf}) {
        a.ffn = ffn;
        a.tied = tied;
        a.mlp = mlp;
        for (const std::vector<int32_t>& ids : {std::vector<int32_t>{}, {5}, {5, 6}}) {
          const std::string text = hugging_face_config(a, DType::bf16, ids);
          const HuggingFaceConfig back = parse(text);
          EXPECT_EQ(back.end_ids, ids);
          EXPECT_EQ(back.architecture.ffn, ffn);
          EXPECT_EQ(back.architecture.tied, tied);
          EXPECT_EQ(back.architecture.mlp, mlp);
          EXPECT_EQ(back.architecture.context, 77);
          EXPECT_EQ(back.architecture.dropout, 0.25);
          EXPECT_EQ(back.architecture.norm_eps, 1e-6);
          EXPECT_EQ(back.architecture.init_std, 0.01);
          EXPECT_EQ(back.architecture.num_parameters(), a.num_parameters());
          EXPECT_EQ(Json::parse(text).at("torch_dtype"), "bfloat16");
        }
      }
    }
  }
}

}  // namespace
}  // namespace megalith::models

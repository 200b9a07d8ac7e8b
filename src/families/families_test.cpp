// SPDX-License-Identifier: Apache-2.0
// config.json of every family: class defaults and published files are the models that their
// publishers count, what is written reads back as itself, what has no code is refused by its key.
#include "families/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "families/hugging_face.h"

namespace megalith::models {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

ModelSpec parsed(const Json& json) {
  return parse_hugging_face_config(json.dump(), "config.json").model;
}

/// The settings of a crammed model are one key; of `change` what is not of the class goes there.
Json small_crammed(const Json& change) {
  Json json = {
      {"model_type", "crammedBERT"},
      {"arch",
       {{"num_transformer_layers", 7},
        {"hidden_size", 48},
        {"intermed_size", 28},
        {"embedding",
         {{"vocab_size", 300}, {"pos_embedding", "scaled-sinusoidal"}, {"max_seq_length", 64}}},
        {"attention", {{"num_attention_heads", 4}}}}}};
  for (const auto& [key, value] : change.items()) {
    if (key == "architectures") {
      json[key] = value;
    } else {
      json["arch"].merge_patch(Json{{key, value}});
    }
  }
  return json;
}

Json small_t5(const std::string& family, const Json& change) {
  Json json = {{"model_type", family}, {"vocab_size", 300}, {"d_model", 48}, {"d_kv", 10},
               {"d_ff", 28},           {"num_layers", 3},   {"num_heads", 4}};
  json.update(change);
  return json;
}

/// Small and awkward; `change` is put into it.
Json small(const std::string& family, const Json& change = Json::object()) {
  if (family == "crammed") return small_crammed(change);
  if (family == "t5" || family == "mt5") return small_t5(family, change);
  Json json = {
      {"model_type", family},         {"vocab_size", 300},        {"hidden_size", 48},
      {"num_hidden_layers", 7},       {"num_attention_heads", 4}, {"intermediate_size", 28},
      {"max_position_embeddings", 64}};
  if (family == "gpt_neox") {
    json["num_attention_heads"] = 3;  // a quarter of a head must be even
  } else if (!is_encoder(family_named(family, "test"))) {
    json.update({{"num_key_value_heads", 2}, {"head_dim", 12}});
  }
  json.update(change);
  return json;
}

std::string fault_of(const Json& json) {
  try {
    parsed(json);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Families, ClassDefaultsAndPublishedSizesHaveThePublishedCounts) {
  const std::pair<Json, int64_t> cases[] = {
      {{{"model_type", "mistral"}}, 7241732096},
      {{{"model_type", "gemma"}}, 8537680896},
      {{{"model_type", "gemma2"}}, 2614341888},
      {{{"model_type", "phi3"}}, 3821079552},
      {{{"model_type", "starcoder2"}}, 3030371328},
      {{{"model_type", "qwen2"},
        {"hidden_size", 896},
        {"num_hidden_layers", 24},
        {"num_attention_heads", 14},
        {"num_key_value_heads", 2},
        {"intermediate_size", 4864},
        {"tie_word_embeddings", true}},
       494032768},
      {{{"model_type", "qwen3"},
        {"hidden_size", 5120},
        {"num_hidden_layers", 64},
        {"num_attention_heads", 64},
        {"num_key_value_heads", 8},
        {"intermediate_size", 25600}},
       32762123264},
      {{{"model_type", "gemma3_text"},
        {"hidden_size", 1152},
        {"num_attention_heads", 4},
        {"num_key_value_heads", 1},
        {"intermediate_size", 6912},
        {"vocab_size", 262144}},
       999885952},
      {{{"model_type", "gpt_neox"},
        {"hidden_size", 512},
        {"num_hidden_layers", 6},
        {"num_attention_heads", 8},
        {"intermediate_size", 2048},
        {"vocab_size", 50304}},
       70426624},
      {{{"model_type", "olmo2"}, {"vocab_size", 100352}}, 7298617344},
      {{{"model_type", "bert"}}, 109514298},
      {{{"model_type", "bert"}, {"architectures", {"BertModel"}}}, 109482240},
      {{{"model_type", "roberta"},
        {"max_position_embeddings", 514},
        {"type_vocab_size", 1},
        {"vocab_size", 50265}},
       124697433},
      {{{"model_type", "modernbert"}}, 149655232},
      {{{"model_type", "albert"},
        {"architectures", {"AlbertModel"}},
        {"hidden_size", 768},
        {"num_attention_heads", 12},
        {"intermediate_size", 3072}},
       11683584},
      {{{"model_type", "crammedBERT"},
        {"arch",
         {{"embedding", {{"vocab_size", 32768}, {"pos_embedding", "scaled-sinusoidal"}}},
          {"attention", Json::object()}}}},
       119589889},
      // Small, 11B, 1.1 small and multilingual small.
      {{{"model_type", "t5"}}, 60506624},
      {{{"model_type", "t5"},
        {"d_model", 1024},
        {"d_kv", 128},
        {"d_ff", 65536},
        {"num_layers", 24},
        {"num_heads", 128}},
       11307321344},
      {{{"model_type", "t5"},
        {"d_ff", 1024},
        {"num_layers", 8},
        {"num_heads", 6},
        {"feed_forward_proj", "gated-gelu"},
        {"tie_word_embeddings", false}},
       76961152},
      {{{"model_type", "mt5"}}, 300176768}};
  for (const auto& [json, count] : cases) EXPECT_EQ(parsed(json).num_parameters(), count) << json;
}

/// Options of each family that are not its defaults.
std::vector<std::pair<std::string, Json>> options() {
  const Json types = {"sliding_attention", "full_attention",    "full_attention", "full_attention",
                      "full_attention",    "sliding_attention", "full_attention"};
  const Json yarn = {{"rope_type", "yarn"},
                     {"rope_theta", 5e5},
                     {"factor", 4.0},
                     {"original_max_position_embeddings", 16}};
  const Json longrope = {{"rope_type", "longrope"},
                         {"short_factor", {1, 1.1, 1.2, 1.3, 1.4, 1.5}},
                         {"long_factor", {1, 2, 3, 4, 5, 6}}};
  return {
      {"bert", {{"hidden_act", "relu"}, {"type_vocab_size", 5}, {"layer_norm_eps", 1e-7}}},
      {"bert",
       {{"architectures", {"BertForSequenceClassification"}},
        {"id2label", {{"0", "no"}, {"1", "perhaps"}, {"2", "yes"}}}}},
      {"bert", {{"architectures", {"BertForSequenceClassification"}}, {"num_labels", 1}}},
      {"bert", {{"architectures", {"BertForTokenClassification"}}, {"num_labels", 9}}},
      {"bert", {{"architectures", {"BertForQuestionAnswering"}}}},
      {"bert", {{"architectures", {"BertModel"}}}},
      {"bert", {{"architectures", {"BertForPreTraining"}}}},
      {"albert", {{"architectures", {"AlbertForPreTraining"}}}},
      {"roberta", {{"pad_token_id", 5}, {"tie_word_embeddings", false}}},
      {"roberta", {{"architectures", {"RobertaForSequenceClassification"}}}},
      {"albert", {{"num_hidden_groups", 3}, {"embedding_size", 20}}},
      {"roberta", {{"architectures", {"RobertaForQuestionAnswering"}}}},
      {"albert", {{"architectures", {"AlbertForSequenceClassification"}}}},
      {"albert", {{"architectures", {"AlbertForQuestionAnswering"}}}},
      {"modernbert", {{"attention_bias", true}, {"norm_bias", true}, {"local_attention", 6}}},
      {"modernbert", {{"layer_types", types}, {"decoder_bias", false}, {"mlp_bias", true}}},
      {"modernbert",
       {{"architectures", {"ModernBertForSequenceClassification"}},
        {"classifier_pooling", "mean"}}},
      {"modernbert", {{"architectures", {"ModernBertForTokenClassification"}}}},
      {"modernbert",
       {{"architectures", {"ModernBertForQuestionAnswering"}}, {"classifier_pooling", "mean"}}},
      {"modernbert", {{"architectures", {"ModernBertModel"}}}},
      {"crammed", {{"nonlin", "SiLU"}, {"use_bias", true}, {"decoder_bias", true}}},
      {"crammed",
       {{"skip_head_transform", false},
        {"final_norm", false},
        {"norm_eps", 1e-5},
        {"attention", {{"qkv_bias", true}}},
        {"embedding", {{"pos_embedding", "learned"}, {"normalization", false}}}}},
      {"crammed", {{"embedding", {{"pos_embedding", nullptr}}}}},
      {"crammed", {{"architectures", {"ScriptableLM"}}, {"nonlin", "ReLUglu"}}},
      {"mistral", {{"sliding_window", nullptr}, {"hidden_act", "gelu_new"}}},
      {"mistral", {{"sliding_window", 9}, {"rope_parameters", yarn}}},
      {"mistral", {{"hidden_size", 50}, {"num_key_value_heads", nullptr}}},
      {"qwen2", {{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 3}}},
      {"qwen2", {{"use_sliding_window", true}, {"sliding_window", 8}, {"layer_types", types}}},
      {"qwen2", {{"rope_scaling", yarn}, {"hidden_act", "quick_gelu"}}},
      {"qwen3", {{"attention_bias", true}, {"tie_word_embeddings", true}}},
      {"qwen3", {{"use_sliding_window", true}, {"max_window_layers", 0}}},
      {"gemma", {{"hidden_act", "gelu"}, {"attention_bias", true}}},
      {"gemma", {{"hidden_act", "relu"}, {"tie_word_embeddings", false}}},
      {"gemma2", {{"query_pre_attn_scalar", 144}, {"sliding_window", 5}}},
      {"gemma2", {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", 7.5}}},
      {"gemma2", {{"layer_types", types}, {"final_logit_softcapping", nullptr}}},
      {"gemma3_text", {{"sliding_window_pattern", 3}, {"query_pre_attn_scalar", 12}}},
      {"gemma3_text",
       {{"rope_theta", 7e5},
        {"rope_local_base_freq", 3e4},
        {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}},
      {"gemma3_text",
       {{"layer_types", types},
        {"final_logit_softcapping", 20.0},
        {"rope_parameters", {{"full_attention", yarn}, {"sliding_attention", longrope}}}}},
      {"phi3", {{"sliding_window", 9}, {"partial_rotary_factor", 0.7}}},
      {"phi3", {{"rope_scaling", longrope}, {"original_max_position_embeddings", 32}}},
      {"phi3",
       {{"original_max_position_embeddings", 32},
        {"rope_parameters",
         [&] {
           Json own = longrope;
           own.update({{"attention_factor", 1.25}, {"factor", 3.0}});
           return own;
         }()}}},
      {"gpt_neox", {{"use_parallel_residual", false}, {"attention_bias", false}}},
      {"gpt_neox", {{"rotary_pct", 0.5}, {"rotary_emb_base", 5e4}, {"hidden_act", "relu"}}},
      {"gpt_neox",
       {{"rope_parameters",
         {{"rope_type", "linear"}, {"factor", 2.0}, {"partial_rotary_factor", 1.0}}}}},
      {"starcoder2", {{"use_bias", false}, {"sliding_window", 9}}},
      {"starcoder2", {{"tie_word_embeddings", false}, {"hidden_act", "gelu"}}},
      {"olmo2", {{"attention_bias", true}, {"rope_scaling", yarn}}},
      {"t5", {{"feed_forward_proj", "gated-gelu"}, {"tie_word_embeddings", false}}},
      {"t5", {{"feed_forward_proj", "gated-silu"}, {"num_decoder_layers", 5}, {"n_positions", 90}}},
      {"t5",
       {{"relative_attention_num_buckets", 8},
        {"relative_attention_max_distance", 20},
        {"decoder_start_token_id", 7}}}};
}

TEST(Families, AWrittenConfigReadsBackAsItself) {
  std::vector<std::pair<std::string, Json>> all = options();
  for (const Family* family : families()) {
    if (family->name != "gpt2") all.emplace_back(family->name, Json::object());
  }
  for (const auto& [family, change] : all) {
    ModelSpec model = parsed(small(family, change));
    EXPECT_EQ(model.family, family);
    const Json written = Json::parse(hugging_face_config(model, DType::f32, {2}));
    EXPECT_EQ(parsed(written), model) << family << change;
    // RoBERTa's says its positions, an encoder-decoder's where a decoder begins.
    if (family != "roberta" && !model.is_encoder_decoder()) {
      EXPECT_TRUE(written.at("pad_token_id").is_null()) << "the class's own may be none of the ids";
    }
    EXPECT_NO_THROW(check_expressible(model)) << family << change;
    model.dropout = 0.25;
    model.init_std = 0.01;
    check_expressible(model);
  }
}

TEST(Families, TheRecipesModelIsOneThatCanBeWritten) {
  for (const Family* family : families()) {
    const ModelSpec model =
        family->make({.layers = 7, .hidden = 48, .heads = 4, .context = 64, .vocab = 300}, "test");
    EXPECT_EQ(model.family, family->name);
    model.check("test");
    EXPECT_NO_THROW(check_expressible(model)) << family->name;
  }
}

TEST(Families, OptionsAreWhatTheySay) {
  const auto layers_of = [](const std::string& family, const Json& change) {
    return parsed(small(family, change)).layers;
  };
  const auto late = layers_of("qwen2", {{"use_sliding_window", true}, {"max_window_layers", 3}});
  EXPECT_EQ(late[2].attention.window, 0);
  EXPECT_EQ(late[3].attention.window, 4096);
  EXPECT_TRUE(late[0].attention.qkv_bias);
  EXPECT_FALSE(late[0].attention.output_bias);
  EXPECT_EQ(layers_of("qwen2", {{"sliding_window", 8}})[6].attention.window, 0);
  EXPECT_EQ(layers_of("mistral", Json::object())[0].attention.window, 4096);
  EXPECT_EQ(layers_of("mistral", {{"sliding_window", nullptr}})[0].attention.window, 0);
  const auto gemma2 = layers_of("gemma2", {{"query_pre_attn_scalar", 144}});
  EXPECT_EQ(gemma2[0].attention.window, 4096);
  EXPECT_EQ(gemma2[1].attention.window, 0);
  EXPECT_EQ(gemma2[1].attention.scale, 1.0 / 12);
  EXPECT_EQ(gemma2[1].attention.softcap, 50);
  EXPECT_EQ(gemma2[1].norm.offset, 1);
  const auto gemma3 = layers_of("gemma3_text", Json::object());
  EXPECT_EQ(gemma3[4].attention.rope.base, 1e4);
  EXPECT_EQ(gemma3[5].attention.rope.base, 1e6);
  EXPECT_EQ(gemma3[4].attention.window, 4096);
  EXPECT_EQ(gemma3[5].attention.window, 0);
  EXPECT_EQ(parsed(small("gemma")).embedding.scale, std::sqrt(48.0));
  EXPECT_EQ(layers_of("gemma", {{"hidden_act", "gelu"}})[0].mlp.activation,
            layers::Activation::gelu_tanh);
  EXPECT_EQ(layers_of("gpt_neox", {{"rotary_pct", 0.5}})[0].attention.rope.dim, 8);
  EXPECT_EQ(layers_of("gpt_neox", {{"rope_parameters", {{"partial_rotary_factor", 1.0}}}})[0]
                .attention.rope.dim,
            16);
  EXPECT_EQ(layers_of("phi3", {{"partial_rotary_factor", 0.7}})[0].attention.rope.dim, 8);
}

TEST(Families, WhatHasNoCodeIsRefusedByItsKey) {
  const Json ntk = {{"rope_type", "ntk"}, {"factor", 2.0}};
  const std::tuple<const char*, const char*, Json> cases[] = {
      {"mistral", "rope_scaling", {{"type", "mrope"}, {"mrope_section", {1, 2}}}},
      {"mistral", "hidden_act", "xielu"},
      {"mistral", "sliding_window", 0},
      {"mistral", "sliding_window", 1.5},
      {"mistral", "layer_types", {"full_attention"}},
      {"mistral", "partial_rotary_factor", 0.5},
      {"mistral", "auto_map", {{"AutoModel", "code.Model"}}},
      {"mistral", "quantization_config", {{"bits", 4}}},
      {"qwen2", "use_mrope", true},
      {"qwen2", "layer_types", {"full_attention"}},
      {"qwen2", "layer_types", Json::array_t(7, "chunked_attention")},
      {"qwen2", "layer_types", Json::array_t(7, "sliding_attention")},
      {"qwen2", "layer_types", {1, 2}},
      {"qwen3", "mlp_only_layers", {1}},
      {"qwen3", "rope_parameters", ntk},
      {"gemma", "use_bidirectional_attention", true},
      {"gemma", "hidden_activation", "silu"},
      {"gemma2", "attn_logit_softcapping", 0.0},
      {"gemma2", "final_logit_softcapping", -1.0},
      {"gemma2", "query_pre_attn_scalar", 0},
      {"gemma2", "sliding_window", nullptr},
      {"gemma3_text", "attn_logit_softcapping", 50.0},
      {"gemma3_text", "rope_parameters", ntk},
      {"gemma3_text", "rope_parameters", {{"full_attention", ntk}}},
      {"gemma3_text", "use_bidirectional_attention", true},
      {"phi3", "rope_scaling", {{"type", "yarn"}, {"factor", 2.0}}},
      {"phi3", "lm_head_bias", true},
      {"phi3", "partial_rotary_factor", 0.01},
      {"phi3", "partial_rotary_factor", 1.5},
      {"gpt_neox", "rotary_pct", -1.0},
      {"gpt_neox", "num_key_value_heads", 2},
      {"starcoder2", "norm_type", "rms_norm"},
      {"starcoder2", "mlp_type", "gated"},
      {"olmo2", "clip_qkv", 8.0},
      {"crammed", "nonlin", "Mishglu"},
      {"crammed", "norm", "RMSNorm"},
      {"crammed", "norm_scheme", "post"},
      {"crammed", "tie_weights", false},
      {"crammed", "intermed_size", 27},
      {"crammed", "ffn_layer_frequency", 2},
      {"crammed", "objective_layout", "SCRIPT"},
      {"crammed", "recurrent_layers", 2},
      {"crammed", "architectures", {"ScriptableLMForSequenceClassification"}},
      {"crammed", "embedding", {{"pos_embedding", "sinusoidal"}}},
      {"crammed", "embedding", {{"embedding_dim", 24}}},
      {"crammed", "attention", {{"rotary_embedding", true}}},
      {"crammed", "attention", {{"causal_attention", true}}},
      {"crammed", "attention", {{"type", "fourier"}}}};
  for (const auto& [family, key, value] : cases) {
    const std::string fault = fault_of(small(family, {{key, value}}));
    const bool is_scaling = std::string_view(key).starts_with("rope_");
    const bool is_part = std::string_view(key) == "rotary_pct";
    EXPECT_THAT(fault, HasSubstr(is_scaling ? "rope"
                                 : is_part  ? "rotary"
                                            : key))
        << family << " " << value;
  }
  EXPECT_THAT(
      fault_of(small("phi3", {{"original_max_position_embeddings", 32},
                              {"rope_scaling",
                               {{"type", "longrope"}, {"original_max_position_embeddings", 16}}}})),
      HasSubstr("original_max_position_embeddings"));
  EXPECT_THAT(fault_of(small("gpt_neox", {{"rotary_emb_base", 1e4}, {"rope_theta", 1e5}})),
              HasSubstr("rope_theta"));
}

TEST(Families, WhatAFormatCannotSayIsNamed) {
  const auto refuses = [](ModelSpec model, const char* what, auto change) {
    change(model);
    try {
      check_expressible(model);
      ADD_FAILURE() << what << " was taken";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  };
  const auto each = [](auto change) {
    return [=](ModelSpec& model) { model.for_each_layer(change); };
  };
  using layers::LayerSpec;
  refuses(parsed(small("qwen2")), "output_bias",
          each([](LayerSpec& layer) { layer.attention.output_bias = true; }));
  refuses(parsed(small("gpt_neox")), "kv_heads",
          each([](LayerSpec& layer) { layer.attention.kv_heads = 2; }));
  refuses(parsed(small("gemma2")), "scale",
          each([](LayerSpec& layer) { layer.attention.scale = 0.3; }));
  refuses(parsed(small("gemma")), "activation",
          each([](LayerSpec& layer) { layer.mlp.activation = layers::Activation::gelu_erf; }));
  refuses(parsed(small("mistral")), "rope",
          each([](LayerSpec& layer) { layer.attention.rope.dim = 6; }));
  refuses(parsed(small("gemma3_text")), "rope",
          [](ModelSpec& model) { model.layers[1].attention.rope.base = 5; });
  refuses(parsed(small("gemma3_text")), "hidden 50", [](ModelSpec& model) { model.hidden = 50; });
  refuses(parsed(small("crammed")), "kv_heads",
          each([](LayerSpec& layer) { layer.attention.kv_heads = 2; }));
  refuses(parsed(small("crammed")), "activation",
          each([](LayerSpec& layer) { layer.mlp.activation = layers::Activation::gelu_tanh; }));
  refuses(parsed(small("phi3")), "bias", each([](LayerSpec& layer) { layer.mlp.bias = true; }));
}

// Files of the hub hold keys that their class does not read.
TEST(Families, PublishedFilesOpen) {
  const Json starcoder = {
      {"activation_function", "gelu"}, {"attention_softmax_in_fp32", true},
      {"layer_norm_epsilon", 1e-5},    {"mlp_type", "default"},
      {"norm_type", "layer_norm"},     {"scale_attention_softmax_in_fp32", true},
      {"scale_attn_weights", true}};
  EXPECT_EQ(parsed(small("starcoder2", starcoder)), parsed(small("starcoder2")));
  const Json gemma2 = {{"hidden_act", "gelu_pytorch_tanh"},
                       {"hidden_activation", "gelu_pytorch_tanh"},
                       {"cache_implementation", "hybrid"}};
  EXPECT_EQ(parsed(small("gemma2", gemma2)), parsed(small("gemma2")));
  EXPECT_EQ(parsed(small("gemma3_text", {{"_sliding_window_pattern", 6}})),
            parsed(small("gemma3_text")));
  EXPECT_EQ(parsed(small("gemma", {{"hidden_act", "gelu"}, {"hidden_activation", nullptr}})),
            parsed(small("gemma")));
  const Json phi = {{"full_attn_mod", 1}, {"interpolate_factor", 1}, {"lm_head_bias", false}};
  EXPECT_EQ(parsed(small("phi3", phi)), parsed(small("phi3")));
  const Json neox = {
      {"rope_theta", 10000.0}, {"partial_rotary_factor", 0.25}, {"rotary_pct", 0.25}};
  EXPECT_EQ(parsed(small("gpt_neox", neox)).layers[0].attention.rope.dim, 4);
}

}  // namespace
}  // namespace megalith::models

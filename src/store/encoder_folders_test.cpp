// SPDX-License-Identifier: Apache-2.0
// Folders of encoders and of encoder-decoders: what of their heads and tables stands in the file.
#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"
#include "inference/inference_model.h"
#include "store/convert.h"
#include "store/convert_fixture.h"
#include "store/model_source.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;
using checkpoint::fault_of;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class EncoderFolders : public ConvertFolders {};

models::ModelSpec small_t5() {
  models::ModelSpec model = models::kT5.make({.layers = 2,
                                              .hidden = 16,
                                              .heads = 2,
                                              .head_dim = 6,
                                              .ffn = 20,
                                              .context = 24,
                                              .vocab = 257},
                                             "test");
  model.dropout = 0.1;
  return model;
}

Json t5_config() {
  return {{"model_type", "t5"},
          {"vocab_size", 257},
          {"d_model", 16},
          {"num_heads", 2},
          {"d_kv", 6},
          {"d_ff", 20},
          {"num_layers", 2},
          {"n_positions", 24},
          {"eos_token_id", 1},
          {"pad_token_id", 0},
          {"layer_norm_epsilon", 1e-5},
          {"initializer_range", 0.02}};
}

TEST_F(EncoderFolders, an_encoder_decoder_has_one_table_of_tokens) {
  const auto list_with = [](const std::string& name, unsigned seed) {
    auto list = tensors(small_t5());
    list.push_back(random_tensor(name, Shape{257, 16}, seed));
    return list;
  };
  for (const char* stack : {"encoder", "decoder"}) {
    const std::string name = std::string(stack) + ".embed_tokens.weight";
    const fs::path same = write_foreign("same", list_with(name, 0), t5_config());  // shared's seed
    EXPECT_EQ(ModelSource::open(same).spec(), small_t5());
    const fs::path other = write_foreign("other", list_with(name, 1), t5_config());
    EXPECT_THAT(fault_of<IntegrityError>([&] { ModelSource::open(other); }),
                HasSubstr(name + " differs from shared.weight, and the model has one table"));
  }
}

// Transformers 5 says that all are tied; a file with a projection of its own is not.
TEST_F(EncoderFolders, the_file_says_what_is_tied_where_transformers_5_does_not) {
  models::ModelSpec untied = small_t5();
  untied.head.tied = false;
  untied.head.scale = 1;
  const auto opened = [&](const models::ModelSpec& stored, const Json& json) {
    const layers::HeadSpec head =
        ModelSource::open(write_foreign("hf", tensors(stored), json)).spec().head;
    return std::pair(head.tied, head.scale);
  };
  const auto with = [](const char* type, Json change) {
    Json json = t5_config();
    json["model_type"] = type;
    json["feed_forward_proj"] = "relu";
    json.update(change);
    return json;
  };
  const Json tied = {{"tie_word_embeddings", true}};
  Json unscaled = tied, scaled = tied, four = tied, five = tied;
  unscaled["scale_decoder_outputs"] = false;
  scaled["scale_decoder_outputs"] = true;
  four["transformers_version"] = "4.46.0";
  five["transformers_version"] = "5.1.0";
  EXPECT_EQ(opened(small_t5(), with("t5", tied)), std::pair(true, 0.25));
  EXPECT_EQ(opened(small_t5(), with("t5", unscaled)), std::pair(true, 1.0));
  EXPECT_EQ(opened(small_t5(), with("t5", scaled)), std::pair(true, 0.25));
  EXPECT_EQ(opened(untied, with("t5", unscaled)), std::pair(false, 1.0));
  EXPECT_EQ(opened(untied, with("t5", scaled)), std::pair(false, 0.25));
  EXPECT_EQ(opened(small_t5(), with("mt5", four)), std::pair(true, 0.25));
  EXPECT_EQ(opened(small_t5(), with("mt5", five)), std::pair(true, 1.0));
  EXPECT_EQ(opened(untied, with("mt5", five)), std::pair(false, 1.0));
  EXPECT_EQ(opened(untied, with("mt5", {{"transformers_version", "4.46.0"}})),
            std::pair(false, 1.0));
  // A copy of the table is no projection of its own.
  auto copied = tensors(small_t5());
  copied.push_back(random_tensor("lm_head.weight", Shape{257, 16}, 0));
  EXPECT_TRUE(
      ModelSource::open(write_foreign("hf", copied, with("t5", unscaled))).spec().head.tied);
}

TEST_F(EncoderFolders, a_tied_head_without_a_scale_and_the_id_of_padding_come_back) {
  Json json = t5_config();
  json.update({{"tie_word_embeddings", true},
               {"scale_decoder_outputs", false},
               {"decoder_start_token_id", 7},
               {"pad_token_id", 3}});
  convert(write_foreign("hf", tensors(small_t5()), json), folder_ / "ours", "megalith", "");
  convert(folder_ / "ours", folder_ / "back", "hf", "");
  const Json back = Json::parse(read_file(folder_ / "back" / "config.json"));
  EXPECT_EQ(back.at("tie_word_embeddings"), true);
  EXPECT_EQ(back.at("scale_decoder_outputs"), false);
  EXPECT_EQ(back.at("decoder_start_token_id"), 7);
  EXPECT_EQ(back.at("pad_token_id"), 3);
  EXPECT_EQ(ModelSource::open(folder_ / "back").spec(), ModelSource::open(folder_ / "ours").spec());
}

// The question about sentence pairs has weights of its own, which are left.
TEST_F(EncoderFolders, a_language_model_begins_with_the_weights_of_a_pretrained_one) {
  const models::ModelSpec wanted = models::kBert.make(
      {.layers = 2, .hidden = 16, .heads = 2, .ffn = 64, .context = 24, .vocab = 257}, "test");
  models::ModelSpec both = wanted;
  both.head.kind = layers::HeadKind::pretraining;
  const Json json = {{"model_type", "bert"},    {"architectures", {"BertForPreTraining"}},
                     {"vocab_size", 257},       {"hidden_size", 16},
                     {"num_hidden_layers", 2},  {"num_attention_heads", 2},
                     {"intermediate_size", 64}, {"max_position_embeddings", 24}};
  const ModelSource source = ModelSource::open(write_foreign("hf", tensors(both), json));
  EXPECT_EQ(source.spec().head.kind, layers::HeadKind::pretraining);
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel model(wanted, *device,
                                  {DType::f32, kernels::Numerics::exact, source.tensor_shards()});
  source.fill(model.parameters(), *device);
  const parameters::Parameter& parameter = model.parameters().all().back();
  const auto stored = source.weights().read(*source.weights().find(parameter.name()));
  const ConstView filled = parameter.compute();
  EXPECT_EQ(std::memcmp(filled.data(), stored.data(), stored.size()), 0);
}

}  // namespace
}  // namespace megalith::store

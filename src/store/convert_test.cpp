// SPDX-License-Identifier: Apache-2.0
// Models opened from every kind of folder and copied between them: the same bits and files there
// and back, nothing at the target after a failure, and every fault of a foreign folder refused by
// name.
#include "store/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors_folder.h"
#include "families/families.h"
#include "inference/inference_model.h"
#include "store/convert_fixture.h"
#include "store/model_source.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;
using checkpoint::fault_of;
using checkpoint::SafetensorsFolder;
using checkpoint::TensorContent;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;

models::ModelSpec small() {
  return models::gpt2(
      {.layers = 2, .hidden = 16, .heads = 2, .ffn = 64, .context = 24, .vocab = 257});
}

class Convert : public ConvertFolders {};

TEST_F(Convert, there_and_back_is_the_same_file) {
  const fs::path foreign = write_foreign("hf", tensors(small()));
  const ConvertResult there = convert(foreign, folder_ / "ours", "megalith", "");
  const ConvertResult back = convert(folder_ / "ours", folder_ / "back", "hf", "");
  EXPECT_EQ(read_file(folder_ / "back" / "model.safetensors"),
            read_file(foreign / "model.safetensors"));
  EXPECT_EQ(there.tensors, 28);
  EXPECT_EQ(there.parameters, small().num_parameters());
  EXPECT_EQ(there.sha256, back.sha256);
  EXPECT_EQ(there.sha256, checkpoint::Reader(folder_ / "ours").state_sha256());
  EXPECT_EQ(back.tensors, there.tensors);
  for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt"}) {
    EXPECT_EQ(read_file(folder_ / "back" / name), read_file(foreign / name));
  }
  EXPECT_THAT(names(folder_ / "back"),
              UnorderedElementsAre("config.json", "generation_config.json", "merges.txt",
                                   "model.safetensors", "special_tokens_map.json", "tokenizer.json",
                                   "tokenizer_config.json", "vocab.json"));
  EXPECT_THAT(ModelSource::open(folder_ / "back").end_ids(), ElementsAre(256));
  EXPECT_THAT(ModelSource::open(folder_ / "ours").end_ids(), ElementsAre(256));
}

/// Else transformers begins its texts with what it calls their first token.
TEST_F(Convert, an_encoder_decoder_says_what_its_decoder_begins_with) {
  const models::ModelSpec t5 = models::kT5.make(
      {.layers = 1, .hidden = 16, .heads = 2, .ffn = 32, .context = 24, .vocab = 257}, "test");
  const Json config = {{"model_type", "t5"},  {"vocab_size", 257}, {"d_model", 16},
                       {"d_kv", 8},           {"d_ff", 32},        {"num_layers", 1},
                       {"num_heads", 2},      {"n_positions", 24}, {"decoder_start_token_id", 7},
                       {"eos_token_id", 256}, {"pad_token_id", 7}};
  const fs::path foreign = write_foreign("hf", tensors(t5), config);
  convert(foreign, folder_ / "ours", "megalith", "");
  convert(folder_ / "ours", folder_ / "back", "hf", "");
  const Json generation = Json::parse(read_file(folder_ / "back" / "generation_config.json"));
  EXPECT_EQ(generation, (Json{{"_from_model_config", true},
                              {"decoder_start_token_id", 7},
                              {"pad_token_id", 7},
                              {"eos_token_id", {256}}}));
  EXPECT_EQ(read_file(folder_ / "back" / "model.safetensors"),
            read_file(foreign / "model.safetensors"));
}

TEST_F(Convert, special_tokens_have_their_roles) {
  models::ModelSpec model = small();
  model.vocab = 259;
  Json config = Convert::config(), tokenizer = text::small_tokenizer({});
  config["vocab_size"] = 259;
  for (const char* name : {"[MASK]", "[UNK]"}) {
    Json token = tokenizer["added_tokens"][0];
    token["id"] = 256 + tokenizer["added_tokens"].size();
    token["content"] = name;
    tokenizer["added_tokens"].push_back(token);
  }
  const fs::path foreign = write_foreign("hf", tensors(model), config);
  put(foreign / "tokenizer.json", tokenizer.dump());
  convert(foreign, folder_ / "back", "hf", "");
  const std::string end = tokenizer["added_tokens"][0]["content"];
  EXPECT_EQ(Json::parse(read_file(folder_ / "back" / "special_tokens_map.json")),
            (Json{{"bos_token", end},
                  {"eos_token", end},
                  {"unk_token", "[UNK]"},
                  {"mask_token", "[MASK]"}}));
}

TEST_F(Convert, chat_templates_are_carried) {
  const fs::path foreign = write_foreign("hf", tensors(small()));
  fs::create_directory(foreign / "additional_chat_templates");
  const std::string named = "additional_chat_templates/tool_use.jinja";
  put(foreign / "chat_template.jinja", "main");
  put(foreign / named, "tools");
  put(foreign / "additional_chat_templates/notes.txt", "not of a chat");
  convert(foreign, folder_ / "same", "hf", "");
  EXPECT_EQ(read_file(folder_ / "same" / "chat_template.jinja"), "main");
  EXPECT_EQ(read_file(folder_ / "same" / named), "tools");
  EXPECT_FALSE(fs::exists(folder_ / "same/additional_chat_templates/notes.txt"));
  convert(foreign, folder_ / "ours", "megalith", "");  // files of a checkpoint lie in one folder
  const auto texts = ModelSource::open(folder_ / "ours").texts();
  EXPECT_EQ(texts.at("chat_template.jinja"), "main");
  EXPECT_FALSE(texts.contains(named));
  put(folder_ / "secret", "x");
  fs::remove(foreign / named);
  fs::create_symlink("../../secret", foreign / named);
  EXPECT_THAT(fault_of<IntegrityError>([&] { ModelSource::open(foreign); }),
              HasSubstr("leads out of its folder"));
}

TEST_F(Convert, names_without_prefix_are_the_same_model) {
  const auto with = convert(write_foreign("a", tensors(small(), true)), folder_ / "x", "hf", "");
  const auto without =
      convert(write_foreign("b", tensors(small(), false)), folder_ / "y", "hf", "");
  EXPECT_EQ(with.sha256, without.sha256);
  EXPECT_EQ(read_file(folder_ / "x" / "model.safetensors"),
            read_file(folder_ / "y" / "model.safetensors"));
}

TEST_F(Convert, an_untied_head_is_carried) {
  models::ModelSpec a = small();
  a.head.tied = false;
  Json json = config();
  json["tie_word_embeddings"] = false;
  const fs::path foreign = write_foreign("hf", tensors(a), json);
  const ConvertResult there = convert(foreign, folder_ / "ours", "megalith", "");
  EXPECT_EQ(there.parameters, small().num_parameters() + 257 * 16);
  convert(folder_ / "ours", folder_ / "back", "hf", "");
  EXPECT_EQ(read_file(folder_ / "back" / "model.safetensors"),
            read_file(foreign / "model.safetensors"));
}

TEST_F(Convert, shards_hold_what_one_file_holds) {
  const fs::path foreign = write_foreign("hf", tensors(small()));
  const ConvertResult one = convert(foreign, folder_ / "one", "hf", "");
  const ConvertResult many = convert(foreign, folder_ / "many", "hf", "", 5000);
  EXPECT_EQ(one.sha256, many.sha256);
  EXPECT_FALSE(fs::exists(folder_ / "many" / "model.safetensors"));
  const SafetensorsFolder shards(folder_ / "many");
  EXPECT_EQ(shards.tensors().size(), 28U);
  EXPECT_EQ(convert(folder_ / "many", folder_ / "again", "hf", "").sha256, one.sha256);
  EXPECT_EQ(read_file(folder_ / "again" / "model.safetensors"),
            read_file(foreign / "model.safetensors"));
}

TEST_F(Convert, another_type_is_rounded_once) {
  const fs::path foreign = write_foreign("hf", tensors(small()));
  const ConvertResult half = convert(foreign, folder_ / "half", "hf", "bf16");
  const ConvertResult ours = convert(foreign, folder_ / "ours", "megalith", "bf16");
  EXPECT_EQ(half.sha256, ours.sha256);
  const ModelSource before = ModelSource::open(foreign),
                    after = ModelSource::open(folder_ / "half");
  for (const StoredTensor& tensor : before.weights().tensors()) {
    const auto wide = before.weights().read(tensor);
    const StoredTensor& narrow = *after.weights().find(tensor.name);
    EXPECT_EQ(narrow.dtype, DType::bf16);
    const auto stored = after.weights().read(narrow);
    const auto* x = reinterpret_cast<const float*>(wide.data());
    const auto* y = reinterpret_cast<const bf16_t*>(stored.data());
    for (int64_t i = 0; i < tensor.shape.num_elements(); ++i) {
      ASSERT_EQ(y[i].bits, to_bf16(x[i]).bits) << tensor.name;
    }
  }
  // Widening again changes no value: narrow, wide, narrow is narrow.
  convert(folder_ / "half", folder_ / "wide", "hf", "f32");
  EXPECT_EQ(convert(folder_ / "wide", folder_ / "narrow", "hf", "bf16").sha256, half.sha256);
}

// Frozen weights may be narrower than the trained ones. Whoever loads the folder in its dtype shall
// lose nothing.
TEST_F(Convert, a_folder_of_several_types_is_labelled_with_one_that_holds_them_all) {
  const auto label = [&](DType first, DType second) {
    for (const char* name : {"hf", "ours", "back"}) fs::remove_all(folder_ / name);
    auto list = tensors(small());
    for (size_t i = 0; i < list.size(); ++i) {
      const DType dtype = i == 0 ? first : i == 1 ? second : DType::bf16;
      if (dtype == DType::f32) continue;
      const std::vector<uint16_t> zeros(static_cast<size_t>(list[i].shape.num_elements()));
      list[i].dtype = dtype;
      list[i].write = [=](TensorContent::Sink sink) { sink(std::as_bytes(std::span(zeros))); };
    }
    convert(write_foreign("hf", list), folder_ / "ours", "megalith", "");
    convert(folder_ / "ours", folder_ / "back", "hf", "");
    return Json::parse(read_file(folder_ / "back" / "config.json"))["torch_dtype"].dump();
  };
  EXPECT_EQ(label(DType::bf16, DType::bf16), "\"bfloat16\"");
  EXPECT_EQ(label(DType::bf16, DType::f32), "\"float32\"");
  EXPECT_EQ(label(DType::f32, DType::bf16), "\"float32\"");
  EXPECT_EQ(label(DType::bf16, DType::f16), "\"float32\"");  // neither holds the other
}

TEST_F(Convert, a_value_beyond_f16_is_not_made_infinite) {
  auto list = tensors(small());
  const std::vector<float> big(257 * 16, 70000);
  list[0].write = [&](TensorContent::Sink sink) { sink(std::as_bytes(std::span(big))); };
  const fs::path foreign = write_foreign("hf", list);
  EXPECT_THAT(fault_of<UserError>([&] { convert(foreign, folder_ / "to", "hf", "f16"); }),
              HasSubstr("embedding.weight"));
  EXPECT_THAT(names(folder_), ElementsAre("hf"));
}

TEST_F(Convert, parameters_are_filled_in_the_sets_type) {
  const ModelSource source = ModelSource::open(write_foreign("hf", tensors(small())));
  EXPECT_EQ(source.tensor_shards(), 2);
  ASSERT_TRUE(source.tokenizer());
  const auto device = device::make_cpu_device(1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    inference::InferenceModel model(source.spec(), *device,
                                    {dtype, kernels::Numerics::exact, source.tensor_shards()});
    source.fill(model.parameters(), *device);
    for (const parameters::Parameter& parameter : model.parameters().all()) {
      const StoredTensor& stored = *source.weights().find(parameter.name());
      const auto expected =
          convert_elements(stored.name, source.weights().read(stored), stored.dtype, dtype);
      const ConstView filled = parameter.compute();
      ASSERT_EQ(static_cast<size_t>(filled.bytes()), expected.size());
      EXPECT_EQ(std::memcmp(filled.data(), expected.data(), expected.size()), 0);
    }
  }
}

// Other ranks may have read their parts and wait. A tensor of more than one part of a read has
// several.
TEST_F(Convert, whoever_opens_and_fills_says_that_it_is_at_work) {
  models::ModelSpec wide = small();
  wide.context = checkpoint::kReadPartBytes / (wide.hidden * 4) + 1;
  Json json = config();
  json["n_positions"] = wide.context;
  const fs::path foreign = write_foreign("hf", tensors(wide), json);
  convert(foreign, folder_ / "ours", "megalith", "");
  int heartbeats = 0;
  const checkpoint::AtWork at_work = [&] { ++heartbeats; };
  const auto device = device::make_cpu_device(1);
  for (const fs::path& folder : {foreign, folder_ / "ours"}) {
    const ModelSource source = ModelSource::open(folder, 0, at_work);
    inference::InferenceModel model(source.spec(), *device,
                                    {DType::f32, kernels::Numerics::exact, source.tensor_shards()});
    heartbeats = 0;
    source.fill(model.parameters(), *device, at_work);
    // Each is read and converted, the table of positions in two parts.
    EXPECT_GE(heartbeats, 2 * std::ssize(model.parameters().all()) + 1) << folder;
  }
}

TEST_F(Convert, a_run_is_its_newest_whole_checkpoint) {
  const fs::path foreign = write_foreign("hf", tensors(small()));
  const fs::path run = folder_ / "run";
  fs::create_directories(run / "checkpoints");
  EXPECT_THAT(fault_of<UserError>([&] { ModelSource::open(run); }),
              HasSubstr("no complete checkpoint"));
  convert(foreign, folder_ / "ours", "megalith", "");
  fs::rename(folder_ / "ours", run / "checkpoints" / "step-00000000");
  EXPECT_EQ(ModelSource::open(run).spec().vocab, 257);
  EXPECT_EQ(ModelSource::open(run / "checkpoints" / "step-00000000/").spec().vocab, 257);
  fs::remove(run / "checkpoints" / "step-00000000" / checkpoint::kCommitName);
  fault_of<IntegrityError>([&] { ModelSource::open(run); });
}

TEST_F(Convert, what_is_no_model_is_refused) {
  fs::create_directories(folder_ / "empty");
  put(folder_ / "file", "x");
  const fs::path foreign = write_foreign("hf", tensors(small()));
  EXPECT_THROW(ModelSource::open(folder_ / "none"), UserError);
  EXPECT_THROW(ModelSource::open(folder_ / "empty"), UserError);
  EXPECT_THROW(ModelSource::open(folder_ / "file"), UserError);
  EXPECT_THROW(convert(foreign, foreign, "hf", ""), UserError);
  EXPECT_THROW(convert(foreign, folder_ / "file", "hf", ""), UserError);
  EXPECT_THROW(convert(foreign, folder_ / "file" / "to", "hf", ""), UserError);
  EXPECT_THROW(convert(foreign, "", "hf", ""), UserError);
  EXPECT_THROW(convert(foreign, folder_ / "to", "onnx", ""), UserError);
  EXPECT_THROW(convert(foreign, folder_ / "to", "hf", "i64"), UserError);
  EXPECT_THAT(names(folder_), UnorderedElementsAre("empty", "file", "hf"));
  convert(foreign, (folder_ / "empty").string() + "/", "hf", "");
  EXPECT_TRUE(fs::exists(folder_ / "empty" / "model.safetensors"));
}

TEST_F(Convert, faults_of_a_foreign_folder_are_named) {
  const auto fault_with = [&](const auto& change, const Json& json = config()) {
    fs::remove_all(folder_ / "hf");
    auto list = tensors(small());
    change(list);
    const fs::path foreign = write_foreign("hf", list, json);
    const std::string fault =
        fault_of<IntegrityError>([&] { convert(foreign, folder_ / "to", "megalith", ""); });
    EXPECT_THAT(names(folder_), ElementsAre("hf"));
    return fault;
  };
  using List = std::vector<TensorContent>;
  const auto none = [](List&) {};
  EXPECT_THAT(fault_with([](List& list) { list.erase(list.begin() + 3); }),
              HasSubstr("h.0.ln_1.bias is missing"));
  EXPECT_THAT(fault_with([](List& list) {
                list[0] = random_tensor(list[0].name, Shape{256, 16}, 1);
              }),
              HasSubstr("wte.weight is [256, 16], config.json makes it [257, 16]"));
  EXPECT_THAT(fault_with([](List& list) { list.push_back(random_tensor("score", Shape{2}, 1)); }),
              HasSubstr("tensor score is no part"));
  EXPECT_THAT(fault_with([](List& list) { list[2].dtype = DType::i32; }),
              HasSubstr("not of a floating type"));
  EXPECT_THAT(fault_with([](List& list) {
                list.push_back(random_tensor("lm_head.weight", Shape{257, 16}, 99));
              }),
              HasSubstr("lm_head.weight differs"));
  Json untied = config();
  untied["tie_word_embeddings"] = false;
  EXPECT_THAT(fault_with(none, untied), HasSubstr("lm_head.weight is missing"));
  Json fewer = config();
  fewer["n_layer"] = 1;
  EXPECT_THAT(fault_with(none, fewer), HasSubstr("h.1."));
}

TEST_F(Convert, buffers_and_a_copy_of_the_tied_head_are_passed_over) {
  auto list = tensors(small(), false);
  list.push_back(random_tensor("lm_head.weight", Shape{257, 16}, 0));  // the embedding's seed
  list.push_back(random_tensor("h.0.attn.bias", Shape{1, 1, 24, 24}, 7));
  list.push_back(random_tensor("h.1.attn.masked_bias", Shape{}, 8));
  const auto result = convert(write_foreign("hf", list), folder_ / "to", "hf", "");
  EXPECT_EQ(result.tensors, 28);
}

TEST_F(Convert, a_damaged_checkpoint_leaves_no_target) {
  convert(write_foreign("hf", tensors(small())), folder_ / "ours", "megalith", "");
  const fs::path file = folder_ / "ours" / "state-00001-of-00001.safetensors";
  std::string content = read_file(file);
  content.back() ^= 1;
  put(file, content);
  EXPECT_THAT(
      fault_of<IntegrityError>([&] { convert(folder_ / "ours", folder_ / "to", "hf", ""); }),
      HasSubstr("is damaged"));
  EXPECT_THAT(names(folder_), UnorderedElementsAre("hf", "ours"));
}

}  // namespace
}  // namespace megalith::store

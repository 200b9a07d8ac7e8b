// SPDX-License-Identifier: Apache-2.0
// Folders of virtual tokens: their rows come where the table of tokens is, and what is wrong with a
// folder is named.
#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/safetensors_writer.h"
#include "families/hugging_face.h"
#include "inference/inference_model.h"
#include "store/adapter_source.h"
#include "store/convert_fixture.h"
#include "store/merged_weights.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;
using checkpoint::fault_of;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr int64_t kTokens = 3;

models::ModelSpec small(const models::Family& family) {
  return family.make(
      {.layers = 2, .hidden = 32, .heads = 4, .ffn = 48, .context = 24, .vocab = 131}, "test");
}

class PromptFolders : public ConvertFolders {
 protected:
  void save(const fs::path& path, const std::map<std::string, Shape>& tensors) const {
    std::vector<checkpoint::TensorContent> list;
    for (const auto& [name, shape] : tensors)
      list.push_back({name, DType::f32, shape,
                      [values = values_of(shape)](checkpoint::TensorContent::Sink sink) {
                        sink(std::as_bytes(std::span(values)));
                      }});
    checkpoint::write_safetensors(path, list);
  }
  static std::vector<float> values_of(const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.num_elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) * 0x1p-7F;
    return values;
  }
  ModelSource model(const models::ModelSpec& spec) const {
    const fs::path path = folder_ / spec.family;
    fs::create_directories(path);
    std::map<std::string, Shape> tensors;
    const models::ForeignTable& table = models::family_named(spec.family, "test").tensors;
    for (const models::TensorMap& map : models::tensor_maps(spec, table))
      for (const models::RowMove& move : map.moves) tensors.emplace(move.name, move.shape);
    save(path / "model.safetensors", tensors);
    put(path / "config.json",
        models::hugging_face_config(spec, DType::f32, {}, std::nullopt, std::nullopt));
    return ModelSource::open(path);
  }
  fs::path write(const std::string& name, const std::map<std::string, Shape>& tensors,
                 const Json& change = Json::object()) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path);
    save(path / "adapter_model.safetensors", tensors);
    Json json = {{"peft_type", "PROMPT_TUNING"}, {"num_virtual_tokens", kTokens}};
    json.update(change);
    put(path / "adapter_config.json", json.dump());
    return path;
  }
};

TEST_F(PromptFolders, RowsAreThoseOfTheFile) {
  for (const models::Family* const family : {&models::kLlama, &models::kGpt2}) {
    const models::ModelSpec spec = small(*family);
    const ModelSource base = model(spec);
    const Shape shape{kTokens, spec.table_width()};
    for (const Json& change : {Json::object(), Json{{"peft_type", "P_TUNING"}}}) {
      const AdapterSource source =
          AdapterSource::open(write("adapter", {{"prompt_embeddings", shape}}, change), base);
      EXPECT_EQ(source.parameters(), shape.num_elements());
      EXPECT_EQ(source.ranks(),
                (layers::AdapterRanks{
                    {"embedding.weight", layers::AdapterRank::of_virtual_tokens(kTokens)}}));
      const auto device = device::make_cpu_device(1);
      inference::InferenceModel reading(spec, *device, {});
      layers::Adapter adapter(reading.parameters(), *device, source.ranks());
      engine::ShardedModel& sharded = reading.engine().model();
      source.fill(adapter, reading.parameters(), sharded.exec(), sharded.mesh().tensor());
      EXPECT_EQ(adapter.virtual_tokens(), kTokens);
      const View rows = adapter.factors().at("embedding.weight").virtual_PE;
      ASSERT_EQ(rows.shape(), shape);
      const auto* const values = rows.as<float>();
      EXPECT_EQ(std::vector<float>(values, values + shape.num_elements()), values_of(shape));
    }
  }
}

/// Where the folder says so they stand inside texts, and not before them.
TEST_F(PromptFolders, RowsOfMarksStandInTexts) {
  const models::ModelSpec spec = small(models::kLlama);
  const ModelSource base = model(spec);
  const Shape shape{kTokens, spec.table_width()};
  const fs::path path = write("marked", {{"prompt_embeddings", shape}});
  const std::string before = AdapterSource::open(path, base).fingerprint();
  put(path / "virtual_token_splits.json", R"({"virtual_token_splits": [2, 1]})");
  const AdapterSource source = AdapterSource::open(path, base);
  EXPECT_EQ(source.splits(), (std::vector<int64_t>{2, 1}));
  EXPECT_NE(source.fingerprint(), before);
  const auto device = device::make_cpu_device(1);
  inference::InferenceModel reading(spec, *device, {});
  const layers::Adapter adapter(reading.parameters(), *device, source.ranks());
  EXPECT_EQ(adapter.virtual_tokens(), 0);
  EXPECT_EQ(adapter.tokens_in_text(), kTokens);
  EXPECT_THAT(fault_of<UserError>([&] { with_adapter_merged(model(spec), path); }),
              HasSubstr("are no part of the weights"));
  put(path / "virtual_token_splits.json", R"({"virtual_token_splits": [2, 2]})");
  EXPECT_THAT(fault_of<UserError>([&] { AdapterSource::open(path, base); }),
              HasSubstr("virtual_token_splits.json: must be"));
}

TEST_F(PromptFolders, FaultsAreNamed) {
  const models::ModelSpec spec = small(models::kLlama);
  const ModelSource base = model(spec);
  const Shape shape{kTokens, spec.table_width()};
  const std::string rows = "prompt_embeddings";
  const auto integrity = [&](const std::map<std::string, Shape>& tensors, const Json& change,
                             const std::string& words) {
    const fs::path path = write("bad", tensors, change);
    EXPECT_THAT(fault_of<IntegrityError>([&] { AdapterSource::open(path, base); }),
                HasSubstr(words));
  };
  const auto user = [&](const ModelSource& of, const Json& change, const std::string& words) {
    const fs::path path = write("bad", {{rows, shape}}, change);
    EXPECT_THAT(fault_of<UserError>([&] { AdapterSource::open(path, of); }), HasSubstr(words));
  };
  integrity({}, Json::object(), "tensor prompt_embeddings is missing");
  integrity({{rows, Shape{kTokens + 1, shape[1]}}}, Json::object(), "prompt_embeddings is [4, ");
  integrity({{rows, Shape{kTokens, shape[1] + 1}}}, Json::object(), "make it [3, ");
  integrity({{rows, shape}, {"more", shape}}, Json::object(),
            "tensor more is not prompt_embeddings");
  user(base, {{"num_virtual_tokens", spec.context - 1}}, "leaves no room in the context");
  const int64_t most = spec.context - 2;
  const fs::path full =
      write("full", {{rows, Shape{most, shape[1]}}}, {{"num_virtual_tokens", most}});
  EXPECT_EQ(AdapterSource::open(full, base).parameters(), most * shape[1]);
  user(model(small(models::kBert)), Json::object(), "this model is an encoder");
  // In an encoder-decoder the first rows precede the encoder's input.
  const ModelSource t5 = model(small(models::kT5));
  Json task = {{"task_type", "SEQ_2_SEQ_LM"}, {"num_transformer_submodules", 2}};
  user(base, {{"num_transformer_submodules", 2}}, "must be 1 unless task_type is SEQ_2_SEQ_LM");
  const fs::path both = write("t5", {{rows, Shape{2 * kTokens, shape[1]}}}, task);
  EXPECT_EQ(AdapterSource::open(both, t5).parameters(), shape.num_elements());
  task["num_transformer_submodules"] = 1;
  EXPECT_EQ(AdapterSource::open(write("t5", {{rows, shape}}, task), t5).parameters(),
            shape.num_elements());
  const fs::path good = write("good", {{rows, shape}});
  EXPECT_THAT(fault_of<UserError>([&] { with_adapter_merged(model(spec), good); }),
              HasSubstr("are no part of the weights"));
}

}  // namespace
}  // namespace megalith::store

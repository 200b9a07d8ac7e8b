// SPDX-License-Identifier: Apache-2.0
// Adapters with a classifier's head: body and head become one model, labels come from the
// config.json beside the adapter, and errors name what does not fit.
#include "store/classifier_head.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/safetensors_writer.h"
#include "families/hugging_face.h"
#include "store/adapter_source.h"
#include "store/convert_fixture.h"
#include "store/merged_weights.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;
using checkpoint::fault_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::string kQuery = "base_model.model.bert.encoder.layer.1.attention.self.query";
const std::string kPooler = "base_model.model.bert.pooler.dense.bias";

class ClassifierHead : public ConvertFolders {
 protected:
  ClassifierHead() {
    const models::ModelSpec spec = models::kBert.make(
        {.layers = 2, .hidden = 32, .heads = 4, .ffn = 48, .context = 24, .vocab = 131}, "test");
    config_ = Json::parse(models::hugging_face_config(spec, DType::f32, {}));
    classes_ = config_;
    classes_["architectures"] = {"BertForSequenceClassification"};
    classes_["problem_type"] = "single_label_classification";
    classes_["id2label"] = {{"0", "no"}, {"1", "maybe"}, {"2", "yes"}};
    model("base", config_, 1);
  }
  void save(const fs::path& path, const std::map<std::string, Shape>& shapes, unsigned seed) const {
    std::vector<checkpoint::TensorContent> list;
    for (const auto& [name, shape] : shapes) list.push_back(random_tensor(name, shape, seed++));
    checkpoint::write_safetensors(path, list);
  }
  static models::ModelSpec spec_of(const Json& config) {
    return models::parse_hugging_face_config(config.dump(), "test").model;
  }
  static std::map<std::string, Shape> shapes_of(const models::ModelSpec& spec) {
    std::map<std::string, Shape> shapes;
    for (const models::TensorMap& map : models::tensor_maps(spec, models::kBert.tensors))
      for (const models::RowMove& move : map.moves) shapes.emplace(move.name, move.shape);
    return shapes;
  }
  fs::path model(const std::string& name, const Json& config, unsigned seed) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path);
    save(path / "model.safetensors", shapes_of(spec_of(config)), seed);
    put(path / "config.json", config.dump());
    return path;
  }
  /// Factors of one product, and the head; `without`: one of its tensors.
  fs::path adapter(const std::string& without = "") const {
    const fs::path path = folder_ / "adapter";
    fs::create_directories(path);
    std::map<std::string, Shape> shapes = {{kQuery + ".lora_A.weight", Shape{4, 32}},
                                           {kQuery + ".lora_B.weight", Shape{32, 4}}};
    for (const auto& [name, shape] : shapes_of(spec_of(classes_)))
      if (name.find("pooler") != std::string::npos || name.starts_with("classifier"))
        shapes.emplace("base_model.model." + name, shape);
    shapes.erase(without);
    save(path / "adapter_model.safetensors", shapes, 50);
    put(path / "adapter_config.json", Json({{"peft_type", "LORA"},
                                            {"r", 4},
                                            {"lora_alpha", 8},
                                            {"task_type", "SEQ_CLS"},
                                            {"target_modules", {"1.attention.self.query"}},
                                            {"modules_to_save", {"classifier", "pooler"}}})
                                          .dump());
    put(path / "config.json", classes_.dump());
    return path;
  }
  ModelSource base() const { return ModelSource::open(folder_ / "base"); }

  Json config_, classes_;  // of the model, and of the classifier
};

TEST_F(ClassifierHead, BodyAndHeadComeTogether) {
  const fs::path path = adapter();
  const ModelSource whole = with_head_of(base(), path);
  EXPECT_THAT(whole.spec().head.labels, ElementsAre("no", "maybe", "yes"));
  const auto value_of = [](const ModelSource& source, const std::string& name) {
    const StoredTensor* const tensor = source.weights().find(name);
    EXPECT_NE(tensor, nullptr) << name;
    return source.weights().read(*tensor);
  };
  for (const models::TensorMap& map : models::tensor_maps(whole.spec(), models::kBert.tensors)) {
    if (!map.name.starts_with("head.")) {
      EXPECT_EQ(value_of(whole, map.name), value_of(base(), map.name)) << map.name;
    }
  }
  const checkpoint::SafetensorsFile file(path / "adapter_model.safetensors");
  const checkpoint::SafetensorsEntry* const bias = file.find(kPooler);
  ASSERT_NE(bias, nullptr);
  std::vector<std::byte> bytes(static_cast<size_t>(bias->bytes));
  file.read(*bias, 0, bias->bytes, bytes.data());
  EXPECT_EQ(value_of(whole, "head.dense.bias"), bytes);
  EXPECT_NE(whole.weights().fingerprint(), base().weights().fingerprint());
  // The factors belong to the body, and may be merged into it.
  const AdapterSource source = AdapterSource::open(path, whole);
  EXPECT_EQ(source.parameters(), 2 * 4 * 32);
  const ModelSource merged = with_adapter_merged(base(), path);
  EXPECT_EQ(value_of(merged, "head.dense.bias"), bytes);
  const std::string query = "layers.1.attention.qkv.weight";
  EXPECT_NE(value_of(merged, query), value_of(base(), query));
}

TEST_F(ClassifierHead, OtherAdaptersLeaveAModelAsItIs) {
  const fs::path path = adapter();
  Json plain = Json::parse(read_file(path / "adapter_config.json", 1 << 20));
  plain["modules_to_save"] = nullptr;
  put(path / "adapter_config.json", plain.dump());
  EXPECT_EQ(with_head_of(base(), path).spec(), base().spec());
  EXPECT_EQ(with_head_of(base(), folder_).spec(), base().spec());
  EXPECT_FALSE(brings_head(path));
  EXPECT_FALSE(brings_head(folder_));
  EXPECT_TRUE(brings_head(adapter()));
}

TEST_F(ClassifierHead, FaultsAreNamed) {
  const fs::path path = adapter();
  EXPECT_THAT(fault_of<UserError>([&] { AdapterSource::open(path, base()); }),
              HasSubstr("modules_to_save"));
  // A body without any head has no place for it either.
  Json body = config_;
  body["architectures"] = {"BertModel"};
  const ModelSource headless = ModelSource::open(model("body", body, 1));
  EXPECT_THAT(fault_of<UserError>([&] { AdapterSource::open(path, headless); }),
              HasSubstr("modules_to_save"));
  // A classifier with another head.
  const ModelSource other = ModelSource::open(model("other", classes_, 7));
  EXPECT_THAT(fault_of<UserError>([&] { AdapterSource::open(path, other); }),
              HasSubstr("is of another head than"));
  put(path / "config.json", config_.dump());
  EXPECT_THAT(fault_of<UserError>([&] { with_head_of(base(), path); }),
              HasSubstr("is no classifier's"));
  Json wide = classes_;
  wide["num_hidden_layers"] = 3;
  put(path / "config.json", wide.dump());
  EXPECT_THAT(fault_of<UserError>([&] { with_head_of(base(), path); }),
              HasSubstr("is of another model"));
  fs::remove(path / "config.json");
  EXPECT_THAT(fault_of<UserError>([&] { with_head_of(base(), path); }),
              HasSubstr("no config.json says what its classes are"));
  const fs::path lacking = adapter(kPooler);
  EXPECT_THAT(fault_of<IntegrityError>([&] { with_head_of(base(), lacking); }),
              HasSubstr("bert.pooler.dense.bias of the classifier's head is missing"));
}

/// Task types that are not of classifiers do not determine the head.
TEST_F(ClassifierHead, TheTaskIsTheHeads) {
  const fs::path path = adapter();
  Json config = Json::parse(read_file(path / "adapter_config.json", 1 << 20));
  const auto with_task = [&](const Json& task) {
    config["task_type"] = task;
    put(path / "adapter_config.json", config.dump());
    return fault_of<UserError>([&] { with_head_of(base(), path); });
  };
  for (const char* const other : {"TOKEN_CLS", "QUESTION_ANS"})
    EXPECT_THAT(with_task(other), AllOf(HasSubstr("adapter_config.json: task_type"),
                                        HasSubstr(other), HasSubstr("which is for SEQ_CLS")));
  for (const Json& fitting : {Json("SEQ_CLS"), Json("FEATURE_EXTRACTION"), Json(nullptr)}) {
    config["task_type"] = fitting;
    put(path / "adapter_config.json", config.dump());
    EXPECT_EQ(with_head_of(base(), path).spec().head.labels.size(), 3u) << fitting;
  }
  Json words = classes_;
  words["architectures"] = {"BertForTokenClassification"};
  put(path / "config.json", words.dump());
  EXPECT_THAT(with_task("SEQ_CLS"), HasSubstr("which is for TOKEN_CLS"));
}

}  // namespace
}  // namespace megalith::store

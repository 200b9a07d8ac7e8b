// SPDX-License-Identifier: Apache-2.0
// GGUF files as models: every architecture there and back to the bit, the layout of the file in
// numbers that can be followed, quantised tensors, and every fault of a file refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/folder_writer.h"
#include "families/model_spec_json.h"
#include "gguf/reader.h"
#include "gguf/widen.h"
#include "gguf/writer.h"
#include "gguf_models/architecture.h"
#include "models/foreign_map.h"
#include "store/convert.h"
#include "store/gguf_layout.h"
#include "store/model_source.h"
#include "text/tokenizer_fixture.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr models::Sizes kSizes{.layers = 2,
                               .hidden = 64,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .ffn = 96,
                               .context = 24,
                               .vocab = 131};

models::ModelSpec usual(std::string_view family) {
  models::Sizes sizes = kSizes;
  if (family == "gpt2" || family == "gpt_neox") sizes.kv_heads = sizes.head_dim = 0;
  return models::family_named(family, "test").make(sizes, "test");
}

class GgufStore : public ::testing::Test {
 protected:
  GgufStore() {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '-');
    folder_ =
        fs::path(::testing::TempDir()) / fmt::format("megalith-gguf-store-{}-{}", getpid(), name);
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~GgufStore() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  void put(const std::string& name, std::string_view content) const {
    File file(folder_ / name, File::Mode::create_or_truncate);
    file.write(content);
    file.close();
  }
  /// A checkpoint whose values all three types hold exactly.
  fs::path write_checkpoint(const models::ModelSpec& spec, DType dtype = DType::f32) const {
    checkpoint::FolderContent content;
    content.state = {{"architecture", models::to_json(spec)},
                     {"tensor_shards", 1},
                     {"end_ids", {5}},
                     {"begin_id", 3}};
    std::mt19937 random(7);
    for (const auto& [name, shape, in_blocks, is_product, by_columns] :
         models::declared_tensors(spec)) {
      const bool is_vocabulary = name == "embedding.weight" || name == "head.weight";
      const int64_t used = is_vocabulary ? spec.vocab * spec.hidden : shape.num_elements();
      std::vector<float> values(static_cast<size_t>(shape.num_elements()));
      for (int64_t i = 0; i < used; ++i)
        values[static_cast<size_t>(i)] =
            static_cast<float>(static_cast<int>(random() % 255) - 127) / 256;
      auto bytes =
          convert_elements(name,
                           {reinterpret_cast<const std::byte*>(values.data()),
                            reinterpret_cast<const std::byte*>(values.data() + values.size())},
                           DType::f32, dtype);
      content.tensors.push_back(
          {name, dtype, shape,
           [bytes = std::move(bytes)](checkpoint::TensorContent::Sink sink) { sink(bytes); }});
    }
    checkpoint::write_checkpoint_folder(folder_ / "checkpoint", content, 1);
    return folder_ / "checkpoint";
  }
  static std::vector<float> values_of(const ModelSource& source, const std::string& name) {
    const StoredTensor& tensor = *source.weights().find(name);
    const auto bytes =
        convert_elements(name, source.weights().read(tensor), tensor.dtype, DType::f32);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  static std::vector<float> values_of(const gguf::Reader& file, const std::string& name) {
    const gguf::TensorEntry& entry = *file.find(name);
    std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes));
    file.read(entry, 0, entry.bytes, bytes.data());
    std::vector<float> values(static_cast<size_t>(entry.shape.num_elements()));
    gguf::widen(entry.type, bytes, values);
    return values;
  }
  /// The file again with some keys and tensors changed; a tensor without bytes is left out.
  void rewrite(const fs::path& from, const fs::path& to,
               const std::function<void(gguf::OrderedMetadata&, std::vector<gguf::TensorContent>&)>&
                   change) const {
    const gguf::Reader file(from);
    gguf::OrderedMetadata metadata(file.metadata().begin(), file.metadata().end());
    std::vector<gguf::TensorContent> tensors;
    for (const gguf::TensorEntry& entry : file.tensors()) {
      std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes));
      file.read(entry, 0, entry.bytes, bytes.data());
      tensors.push_back({entry.name, entry.type, entry.shape,
                         [bytes](gguf::TensorContent::Sink sink) { sink(bytes); }});
    }
    change(metadata, tensors);
    gguf::write_file(to, metadata, tensors);
  }
  std::string fault_of_opening(
      const std::function<void(gguf::OrderedMetadata&, std::vector<gguf::TensorContent>&)>& change)
      const {
    rewrite(folder_ / "a.gguf", folder_ / "b.gguf", change);
    try {
      ModelSource::open(folder_ / "b.gguf");
    } catch (const Error& error) {
      return error.what();
    }
    return "no fault";
  }
  fs::path folder_;
};

class GgufFamilies : public GgufStore,
                     public ::testing::WithParamInterface<const gguf_models::Architecture*> {};

TEST_P(GgufFamilies, ThereAndBackIsTheSameModel) {
  const models::ModelSpec spec = usual(GetParam()->family);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    fs::remove_all(folder_ / "checkpoint");
    fs::remove_all(folder_ / "a.gguf");
    const ModelSource source = ModelSource::open(write_checkpoint(spec, dtype));
    convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "");
    const ModelSource again = ModelSource::open(folder_ / "a.gguf", 1);
    EXPECT_EQ(again.spec(), spec);
    EXPECT_THAT(again.end_ids(), ElementsAre(5));
    EXPECT_EQ(again.begin_id(), 3);
    ASSERT_EQ(again.weights().tensors().size(), source.weights().tensors().size());
    for (const StoredTensor& tensor : source.weights().tensors()) {
      const StoredTensor* other = again.weights().find(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      EXPECT_EQ(other->shape, tensor.shape);
      const bool is_plain = tensor.shape.num_dims() < 2 || tensor.name == "position.weight";
      EXPECT_EQ(other->dtype, is_plain ? DType::f32 : dtype) << tensor.name;
      EXPECT_EQ(values_of(again, tensor.name), values_of(source, tensor.name)) << tensor.name;
    }
  }
}

TEST_P(GgufFamilies, Q80RoundsEachMatrixOnce) {
  const models::ModelSpec spec = usual(GetParam()->family);
  const ModelSource source = ModelSource::open(write_checkpoint(spec));
  convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "q8_0");
  const ModelSource again = ModelSource::open(folder_ / "a.gguf", 1);
  for (const StoredTensor& tensor : source.weights().tensors()) {
    const std::vector<float> before = values_of(source, tensor.name);
    const std::vector<float> after = values_of(again, tensor.name);
    float worst = 0;
    for (size_t i = 0; i < before.size(); ++i)
      worst = std::max(worst, std::fabs(after[i] - before[i]));
    // Half a step of codes up to 127 for values up to 127/256, and the scale's rounding (f16).
    const bool is_plain = tensor.shape.num_dims() < 2 || tensor.name == "position.weight";
    EXPECT_LE(worst, is_plain ? 0 : 0.5001F / 256 + 127 * 0x1p-20F) << tensor.name;
  }
  const gguf::Reader file(folder_ / "a.gguf");
  EXPECT_EQ(file.find("token_embd.weight")->type, gguf::TensorType::q8_0);
  EXPECT_EQ(file.find("blk.1.attn_norm.weight") == nullptr, GetParam()->name == "olmo2");
  EXPECT_EQ(file.metadata().at("general.file_type").integer(), 7);
}

INSTANTIATE_TEST_SUITE_P(All, GgufFamilies, ::testing::ValuesIn(gguf_models::architectures()),
                         [](const auto& each) { return std::string(each.param->name); });

TEST_F(GgufStore, RowsOfLlamasHeadsGoInPairs) {
  std::vector<int> rows = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
  const auto bytes = std::as_writable_bytes(std::span(rows));
  pair_rows(bytes, 12, 6);
  EXPECT_THAT(rows, ElementsAre(0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15));
  unpair_rows(bytes, 12, 6);
  EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15));
  pair_rows(bytes, 6, 6);  // rows of two numbers
  EXPECT_THAT(rows, ElementsAre(0, 1, 10, 11, 2, 3, 12, 13, 4, 5, 14, 15));
}

TEST_F(GgufStore, QueriesKeysAndValuesStandApart) {
  const ModelSource source = ModelSource::open(write_checkpoint(usual("llama")));
  convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "");
  const gguf::Reader file(folder_ / "a.gguf");
  const std::vector<float> ours = values_of(source, "layers.1.attention.qkv.weight");
  const std::vector<float> q = values_of(file, "blk.1.attn_q.weight");
  const std::vector<float> v = values_of(file, "blk.1.attn_v.weight");
  // Our rows: two groups of two heads, a key and a value, 16 rows each. Row 5 of the file's third
  // query head is row 2 + 8 of the first head of the second group.
  const auto row = [](const std::vector<float>& all, size_t index) {
    return std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(index * 64),
                              all.begin() + static_cast<std::ptrdiff_t>(index * 64 + 64));
  };
  EXPECT_EQ(row(q, 2 * 16 + 5), row(ours, 64 + 10));
  EXPECT_EQ(row(v, 16 + 5), row(ours, 64 + 3 * 16 + 5));
}

TEST_F(GgufStore, GemmasNormsHoldTheirOffset) {
  const ModelSource source = ModelSource::open(write_checkpoint(usual("gemma3_text")));
  convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "");
  const gguf::Reader file(folder_ / "a.gguf");
  for (const auto& [theirs, ours] :
       {std::pair{"output_norm.weight", "final_norm.weight"},
        std::pair{"blk.0.attn_q_norm.weight", "layers.0.attention.q_norm.weight"}}) {
    std::vector<float> expected = values_of(source, ours);
    for (float& value : expected) value += 1;
    EXPECT_EQ(values_of(file, theirs), expected) << theirs;
  }
  const std::vector<float> table = values_of(source, "embedding.weight");
  EXPECT_EQ(values_of(file, "token_embd.weight"),
            std::vector<float>(table.begin(), table.begin() + 131 * 64));
}

TEST_F(GgufStore, AHuggingFaceFolderAndBack) {
  write_checkpoint(usual("qwen3"));
  const ConvertResult first = convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "");
  convert(folder_ / "a.gguf", folder_ / "hf", "hf", "");
  convert(folder_ / "hf", folder_ / "b.gguf", "gguf", "");
  EXPECT_EQ(read_file(folder_ / "a.gguf"), read_file(folder_ / "b.gguf"));
  const ConvertResult back = convert(folder_ / "b.gguf", folder_ / "ours", "megalith", "");
  EXPECT_EQ(first.sha256, back.sha256);
  EXPECT_EQ(first.parameters, usual("qwen3").num_parameters());
}

TEST_F(GgufStore, QuantisedTensorsAreReadInF32) {
  write_checkpoint(usual("llama"));
  convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "f16");
  std::vector<float> expected;
  rewrite(folder_ / "a.gguf", folder_ / "b.gguf", [&](auto&, auto& tensors) {
    for (gguf::TensorContent& tensor : tensors) {
      if (tensor.name != "blk.0.ffn_down.weight") continue;
      tensor.type = gguf::TensorType::q4_1;
      std::vector<std::byte> blocks(static_cast<size_t>(tensor.bytes()), std::byte{0x21});
      for (size_t at = 0; at < blocks.size(); at += 20) {
        blocks[at] = blocks[at + 2] = std::byte{0};
        blocks[at + 1] = std::byte{0x3c};  // d = 1
        blocks[at + 3] = std::byte{0x40};  // m = 2
      }
      tensor.write = [blocks](gguf::TensorContent::Sink sink) { sink(blocks); };
    }
  });
  const ModelSource source = ModelSource::open(folder_ / "b.gguf");
  EXPECT_EQ(source.weights().find("layers.0.mlp.down.weight")->dtype, DType::f32);
  EXPECT_EQ(source.weights().find("layers.1.mlp.down.weight")->dtype, DType::f16);
  const std::vector<float> values = values_of(source, "layers.0.mlp.down.weight");
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[16], 4);
  EXPECT_EQ(values[32], 3);
}

TEST_F(GgufStore, RowsThatAreNoWholeBlocksStayPlain) {
  models::Sizes sizes = kSizes;
  sizes.ffn = 40;
  write_checkpoint(models::family_named("llama", "test").make(sizes, "test"));
  convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "q8_0");
  const gguf::Reader file(folder_ / "a.gguf");
  EXPECT_EQ(file.find("blk.0.ffn_up.weight")->type, gguf::TensorType::q8_0);
  EXPECT_EQ(file.find("blk.0.ffn_down.weight")->type, gguf::TensorType::f32);
}

TEST_F(GgufStore, CodesOfFourBits) {
  write_checkpoint(usual("qwen2"));
  for (const auto& [name, type, number] : {std::tuple{"q4_0", gguf::TensorType::q4_0, 2},
                                           std::tuple{"q4_1", gguf::TensorType::q4_1, 3}}) {
    const fs::path path = folder_ / fmt::format("{}.gguf", name);
    convert(folder_ / "checkpoint", path, "gguf", name);
    const gguf::Reader file(path);
    EXPECT_EQ(file.find("blk.1.attn_k.weight")->type, type);
    EXPECT_EQ(file.find("blk.1.attn_k.bias")->type, gguf::TensorType::f32);
    EXPECT_EQ(file.metadata().at("general.file_type").integer(), number);
    EXPECT_EQ(file.metadata().at("general.quantization_version").integer(), 2);
    EXPECT_EQ(ModelSource::open(path).spec(), usual("qwen2"));
  }
}

TEST_F(GgufStore, ARanksPartIsThatOfTheWhole) {
  write_checkpoint(usual("gemma2"));
  convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "q8_0");
  const ModelSource source = ModelSource::open(folder_ / "a.gguf", 2);
  for (const StoredTensor& tensor : source.weights().tensors()) {
    const std::vector<std::byte> whole = source.weights().read(tensor);
    const int64_t half = tensor.shape[0] / 2;
    const Shard part{.dim = 0, .begin = half, .count = tensor.shape[0] - half};
    const auto bytes = static_cast<std::ptrdiff_t>(whole.size()) / tensor.shape[0] * half;
    EXPECT_EQ(source.weights().read(tensor, part),
              std::vector<std::byte>(whole.begin() + bytes, whole.end()))
        << tensor.name;
  }
}

TEST_F(GgufStore, FaultsOfTensorsAreNamed) {
  write_checkpoint(usual("llama"));
  convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "");
  EXPECT_THAT(fault_of_opening([](auto&, auto&) {}), "no fault");
  const auto find = [](std::vector<gguf::TensorContent>& tensors, std::string_view name) {
    return std::ranges::find(tensors, name, &gguf::TensorContent::name);
  };
  EXPECT_THAT(fault_of_opening([&](auto&, auto& tensors) {
                tensors.erase(find(tensors, "blk.1.ffn_up.weight"));
              }),
              HasSubstr("b.gguf: tensor blk.1.ffn_up.weight is missing"));
  EXPECT_THAT(fault_of_opening([&](auto&, auto& tensors) {
                find(tensors, "blk.1.ffn_up.weight")->shape = Shape{64, 96};
              }),
              HasSubstr("blk.1.ffn_up.weight is [64, 96], the metadata makes it [96, 64]"));
  EXPECT_THAT(fault_of_opening([&](auto&, auto& tensors) {
                find(tensors, "blk.1.ffn_up.weight")->name = "blk.2.ffn_up.weight";
              }),
              HasSubstr("blk.1.ffn_up.weight is missing"));
  EXPECT_THAT(fault_of_opening([&](auto&, auto& tensors) {
                gguf::TensorContent more = *find(tensors, "blk.1.ffn_up.weight");
                more.name = "blk.1.ffn_gate_inp.weight";
                tensors.push_back(more);
              }),
              HasSubstr("blk.1.ffn_gate_inp.weight is no part of the model"));
  EXPECT_THAT(
      fault_of_opening([&](auto&, auto& tensors) {
        gguf::TensorContent& tensor = *find(tensors, "blk.1.ffn_up.weight");
        tensor.type = static_cast<gguf::TensorType>(20);
        tensor.write = [bytes = std::vector<std::byte>(static_cast<size_t>(tensor.bytes()))](
                           gguf::TensorContent::Sink sink) { sink(bytes); };
      }),
      HasSubstr("blk.1.ffn_up.weight is stored as IQ4_NL, which is not supported"));
  EXPECT_THAT(fault_of_opening([&](auto& metadata, auto&) {
                for (auto& [key, value] : metadata)
                  if (key == "llama.vocab_size") value = gguf::Value::u32(130);
              }),
              HasSubstr("token_embd.weight is [131, 64], the metadata makes it [130, 64]"));
  EXPECT_THAT(fault_of_opening([&](auto& metadata, auto&) {
                for (auto& [key, value] : metadata)
                  if (key == "llama.block_count") value = gguf::Value::u32(22);
              }),
              HasSubstr("the metadata has 22 layers, the file 21 tensors"));
}

TEST_F(GgufStore, TheTokenizerStaysInTheFile) {
  write_checkpoint(usual("llama"));
  convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "");
  rewrite(folder_ / "a.gguf", folder_ / "b.gguf", [](auto& metadata, auto&) {
    for (auto& [key, value] : metadata)
      if (key == "tokenizer.ggml.model") value = gguf::Value::text("gpt2");
    metadata.emplace_back("tokenizer.ggml.tokens",
                          gguf::Value::texts(std::vector<std::string>{"a", "b"}));
    metadata.emplace_back("tokenizer.chat_template", gguf::Value::text("{{ x }}"));
  });
  const ModelSource source = ModelSource::open(folder_ / "b.gguf");
  EXPECT_EQ(source.texts().at("chat_template.jinja"), "{{ x }}");
  EXPECT_FALSE(source.tokenizer());
  EXPECT_THROW(source.require_tokenizer(), UserError);
  convert(folder_ / "b.gguf", folder_ / "c.gguf", "gguf", "bf16");
  const gguf::Reader before(folder_ / "b.gguf"), again(folder_ / "c.gguf");
  for (const auto& [key, value] : before.metadata()) {
    if (!key.starts_with("tokenizer.")) continue;
    EXPECT_EQ(again.metadata().at(key), value) << key;
  }
}

TEST_F(GgufStore, TheTokenizerOfTheFileIsTheModels) {
  write_checkpoint(usual("llama"));
  convert(folder_ / "checkpoint", folder_ / "a.gguf", "gguf", "");
  rewrite(folder_ / "a.gguf", folder_ / "b.gguf", [](auto& metadata, auto&) {
    std::vector<std::string> tokens{"a", "b", "ab", "</s>"};
    while (tokens.size() < static_cast<size_t>(kSizes.vocab))
      tokens.push_back(fmt::format("#{}", tokens.size()));
    std::vector<int32_t> kinds(tokens.size(), 1);
    kinds[3] = 3;
    for (auto& [key, value] : metadata)
      if (key == "tokenizer.ggml.model") value = gguf::Value::text("gpt2");
    std::erase_if(metadata, [](const auto& item) { return item.first.ends_with("token_id"); });
    const auto add = [&](const char* key, gguf::Value value) {
      metadata.emplace_back(std::string("tokenizer.") + key, std::move(value));
    };
    add("ggml.pre", gguf::Value::text("gpt-2"));
    add("ggml.tokens", gguf::Value::texts(tokens));
    add("ggml.token_type", gguf::Value::i32s(kinds));
    add("ggml.merges", gguf::Value::texts(std::vector<std::string>{"a b"}));
    add("ggml.eos_token_id", gguf::Value::u32(3));
    add("chat_template", gguf::Value::text("{{ eos_token }}"));
  });
  using Ids = std::vector<int32_t>;
  const ModelSource source = ModelSource::open(folder_ / "b.gguf");
  EXPECT_EQ(source.require_tokenizer().encode("ab</s>b", true), (Ids{2, 3, 1}));
  EXPECT_THAT(source.end_ids(), ElementsAre(3));
  convert(folder_ / "b.gguf", folder_ / "hf", "hf", "");
  const ModelSource folder = ModelSource::open(folder_ / "hf");
  EXPECT_EQ(folder.require_tokenizer().encode("ab</s>b", true), (Ids{2, 3, 1}));
  EXPECT_EQ(folder.texts().at("chat_template.jinja"), "{{ eos_token }}");
  EXPECT_THAT(folder.texts().at("tokenizer_config.json"), HasSubstr("\"eos_token\": \"</s>\""));
}

TEST_F(GgufStore, TheTokenizerOfAFolderIsWritten) {
  write_checkpoint(usual("llama"));
  convert(folder_ / "checkpoint", folder_ / "hf", "hf", "");
  nlohmann::json tokenizer = text::small_tokenizer({});
  for (int byte = 128; byte < 256; ++byte) {  // more than the model has ids for
    const char as_char = static_cast<char>(byte);
    tokenizer["model"]["vocab"].erase(tokenize::bytes_to_token(std::string_view(&as_char, 1)));
  }
  tokenizer["model"]["vocab"].erase("<|endoftext|>");
  tokenizer["added_tokens"][0]["id"] = 128;
  put("hf/tokenizer.json", tokenizer.dump());
  put("hf/tokenizer_config.json",
      R"({"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"})");
  put("hf/chat_template.jinja", "{{ messages }}");
  const ModelSource before = ModelSource::open(folder_ / "hf");
  convert(folder_ / "hf", folder_ / "a.gguf", "gguf", "");
  const ModelSource after = ModelSource::open(folder_ / "a.gguf");
  EXPECT_EQ(after.require_tokenizer().encode("x y", true),
            before.require_tokenizer().encode("x y", true));
  EXPECT_EQ(after.texts().at("chat_template.jinja"), "{{ messages }}");
  EXPECT_THAT(after.texts().at("tokenizer_config.json"),
              HasSubstr("\"pad_token\": \"<|endoftext|>\""));
  EXPECT_EQ(after.begin_id(), before.begin_id());
  EXPECT_THAT(after.end_ids(), ElementsAre(128, 5));
  convert(folder_ / "hf", folder_ / "b.gguf", "gguf", "", kShardBytes, Tokenizers::left_out);
  const ModelSource without = ModelSource::open(folder_ / "b.gguf");
  EXPECT_FALSE(without.tokenizer());
  EXPECT_THAT(without.end_ids(), ElementsAre(5));
  tokenizer["normalizer"] = {{"type", "Lowercase"}};
  put("hf/tokenizer.json", tokenizer.dump());
  EXPECT_THROW(convert(folder_ / "hf", folder_ / "c.gguf", "gguf", ""), UserError);
  EXPECT_FALSE(fs::exists(folder_ / "c.gguf"));
}

TEST_F(GgufStore, WhatCannotBeWrittenIsRefused) {
  const auto fault = [&](const fs::path& to, const char* dtype) -> std::string {
    try {
      convert(folder_ / "checkpoint", to, "gguf", dtype);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no fault";
  };
  write_checkpoint(usual("llama"));
  fs::create_directories(folder_ / "folder");
  EXPECT_THAT(fault(folder_ / "folder", ""), HasSubstr("exists already; name a file"));
  EXPECT_THAT(fault(folder_ / "a.gguf", "q5_0"), HasSubstr("cannot be stored as 'q5_0'"));
  fs::remove_all(folder_ / "checkpoint");
  models::ModelSpec spec = usual("llama");
  spec.for_each_layer(
      [](layers::LayerSpec& layer) { layer.mlp.activation = layers::Activation::relu; });
  write_checkpoint(spec);
  EXPECT_THAT(fault(folder_ / "a.gguf", ""), HasSubstr("the GGUF format cannot express"));
  EXPECT_FALSE(fs::exists(folder_ / "a.gguf"));
}

TEST_F(GgufStore, AFileThatIsNoModelIsRefused) {
  gguf::write_file(folder_ / "a.gguf", {{"general.architecture", gguf::Value::text("clip")}}, {});
  EXPECT_THROW(ModelSource::open(folder_ / "a.gguf"), UserError);
  write_file_durable(folder_ / "b.gguf", "GGML");
  EXPECT_THROW(ModelSource::open(folder_ / "b.gguf"), UserError);
}

}  // namespace
}  // namespace megalith::store

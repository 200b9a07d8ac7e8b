// SPDX-License-Identifier: Apache-2.0
// Weights in FP8: Hugging Face folders with scales, written and read; models that hold them so,
// with the same bits under every layout.
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/safetensors_folder.h"
#include "comm/backends.h"
#include "store/convert.h"
#include "store/fp8_tensors.h"
#include "store/quantized_store_testing.h"

namespace megalith::store {
namespace {

using checkpoint::SafetensorsFolder;
using checkpoint::TensorContent;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kQuery[] = "model.layers.1.self_attn.q_proj.weight";
constexpr char kDown[] = "model.layers.0.mlp.down_proj.weight";

std::vector<std::byte> bytes_at(const SafetensorsFolder& folder, const std::string& name) {
  const SafetensorsFolder::Location* at = folder.find(name);
  MEGA_CHECK(at != nullptr, "no {}", name);
  std::vector<std::byte> bytes(static_cast<size_t>(at->entry->bytes));
  at->file->read(*at->entry, 0, at->entry->bytes, bytes.data());
  return bytes;
}
std::vector<float> floats_at(const SafetensorsFolder& folder, const std::string& name) {
  const std::vector<std::byte> bytes = bytes_at(folder, name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class Fp8Store : public QuantizedStore {
 protected:
  fs::path written(const fs::path& from, const std::string& name, std::string_view dtype = "") {
    convert(from, folder_ / name, "hf", dtype, kShardBytes, Tokenizers::carried, {}, {},
            Fp8Weights::all);
    return folder_ / name;
  }
  /// The folder again, with some tensors replaced, or left out where `change` gives nothing.
  using Change = std::function<std::optional<TensorContent>(TensorContent)>;
  fs::path changed(const fs::path& from, const std::string& name, const Change& change,
                   const json& quantization = {}, std::vector<TensorContent> tensors = {}) {
    const SafetensorsFolder folder(from);
    for (const auto& [tensor, at] : folder.tensors()) {
      TensorContent content{
          tensor, *at.entry->dtype, at.entry->shape,
          [bytes = bytes_at(folder, tensor)](TensorContent::Sink sink) { sink(bytes); }};
      if (auto made = change(std::move(content))) tensors.push_back(std::move(*made));
    }
    const fs::path to = folder_ / name;
    fs::create_directories(to);
    checkpoint::write_safetensors(to / checkpoint::kSingleName, tensors);
    json config = json::parse(read_file(from / "config.json", 1 << 20));
    if (!quantization.is_null()) config["quantization_config"] = quantization;
    File file(to / "config.json", File::Mode::create_or_truncate);
    file.write(config.dump());
    file.close();
    return to;
  }
  static TensorContent floats(const std::string& name, const Shape& shape,
                              const std::vector<float>& values) {
    return {name, DType::f32, shape,
            [values](TensorContent::Sink sink) { sink(std::as_bytes(std::span(values))); }};
  }
};

TEST_F(Fp8Store, AFolderHoldsCodesAndAScaleForEachRow) {
  const fs::path from = checkpoint(model_of("llama"));
  const SafetensorsFolder plain([&] {
    convert(from, folder_ / "plain", "hf", "");
    return folder_ / "plain";
  }());
  const SafetensorsFolder folder(written(from, "fp8", "bf16"));
  const Shape shape = folder.find(kQuery)->entry->shape;
  EXPECT_EQ(folder.find(kQuery)->entry->dtype, DType::f8_e4m3);
  EXPECT_EQ(folder.find(std::string(kQuery) + "_scale")->entry->shape, (Shape{shape[0], 1}));
  EXPECT_EQ(folder.find("model.embed_tokens.weight")->entry->dtype, DType::bf16);
  EXPECT_EQ(folder.find("lm_head.weight")->entry->dtype, DType::bf16);
  const std::vector<float> values = floats_at(plain, kQuery);
  const std::vector<std::byte> codes = bytes_at(folder, kQuery);
  const std::vector<float> scales = floats_at(folder, std::string(kQuery) + "_scale");
  for (int64_t row = 0; row < shape[0]; ++row) {
    float amax = 0;
    int largest = 0;
    const float scale = scales[static_cast<size_t>(row)];
    for (int64_t i = row * shape[1]; i < (row + 1) * shape[1]; ++i) {
      const float value = values[static_cast<size_t>(i)];
      const auto code = std::to_integer<uint8_t>(codes[static_cast<size_t>(i)]);
      amax = std::max(amax, std::abs(value));
      largest = std::max<int>(largest, code & 0x7f);
      // Half a unit of three bits of mantissa, or of the denormals.
      EXPECT_LE(std::abs(to_f32(f8_e4m3_t{code}) * scale - value),
                std::max(std::abs(value) / 16, scale * 0x1p-10F) * 1.0001F);
    }
    EXPECT_EQ(scale, to_f32(to_bf16(scale)));
    EXPECT_GE(scale * 448, amax);
    EXPECT_LE(scale * 448, amax * (1 + 0x1p-6F));
    EXPECT_GE(largest, 0x7d);  // 416 and more
  }
  const json config = json::parse(read_file(folder_ / "fp8" / "config.json", 1 << 20));
  EXPECT_EQ(config["quantization_config"]["ignore"], json({"lm_head"}));
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
}

TEST_F(Fp8Store, EveryFamilyReadsWhatItWritesAndHoldsItAsItIs) {
  for (const std::string_view family : {"llama", "qwen2", "gemma2", "phi3", "gpt_neox"}) {
    const fs::path from = checkpoint(model_of(family));
    const ModelSource original = ModelSource::open(from);
    const ModelSource source =
        ModelSource::open(written(from, fmt::format("fp8-{}", family)), kShards);
    const auto formats = source.storage_formats(std::nullopt);
    EXPECT_EQ(formats, original.storage_formats(Format::fp8)) << family;
    EXPECT_EQ(formats.size(), 8u) << family;  // four matrices of each layer
    const auto kept = filled(source, formats), rounded = filled(original, formats);
    for (const parameters::Parameter& parameter : kept->parameters().all()) {
      EXPECT_EQ(stored_bytes(parameter),
                stored_bytes(*rounded->parameters().find(parameter.name())))
          << family << " " << parameter.name();
    }
    // Scales behind sums instead of in the weights: other roundings, hardly other numbers.
    const Reading exact = read_with(kept->engine()),
                  wide = read_with(widened(source, *kept)->engine());
    for (size_t i = 0; i < wide.scores.size(); ++i)
      EXPECT_NEAR(exact.scores[i], wide.scores[i], 1e-4) << family;
    // As they are once more, and as numbers.
    const auto again = convert(folder_ / fmt::format("fp8-{}", family),
                               folder_ / fmt::format("again-{}", family), "hf", "");
    EXPECT_EQ(
        read_file(folder_ / fmt::format("again-{}", family) / checkpoint::kSingleName, 1 << 26),
        read_file(folder_ / fmt::format("fp8-{}", family) / checkpoint::kSingleName, 1 << 26));
    EXPECT_GT(again.tensors, 0);
    convert(folder_ / fmt::format("fp8-{}", family), folder_ / fmt::format("f32-{}", family), "hf",
            "f32");
    const ModelSource numbers = ModelSource::open(folder_ / fmt::format("f32-{}", family), kShards);
    EXPECT_TRUE(numbers.storage_formats(std::nullopt).empty());
    EXPECT_EQ(read_with(filled(numbers, {})->engine()), wide) << family;
  }
}

TEST_F(Fp8Store, EveryLayoutHasTheBitsOfOneRank) {
  for (const std::string_view family : {"llama", "gpt2"}) {
    const ModelSource source = ModelSource::open(checkpoint(model_of(family)));
    const auto formats = source.storage_formats(Format::fp8);
    for (const DType compute : {DType::f32, DType::bf16}) {
      const auto options = [&](const parallel::Layout& layout) {
        return InferenceModel::Options{
            .compute = compute, .tensor_shards = kShards, .layout = layout, .formats = formats};
      };
      InferenceModel one(source.spec(), *device_, options({}));
      source.fill(one.parameters(), *device_);
      const Reading alone = read_with(one.engine());
      for (const parallel::Layout& layout :
           {parallel::Layout{.tensor = 2}, parallel::Layout{.pipeline = 2},
            parallel::Layout{.tensor = 2, .pipeline = 2}}) {
        comm::run_ranks(layout.num_ranks(), [&](comm::Communicator& world) {
          const auto device = device::make_cpu_device(1);
          InferenceModel model(source.spec(), *device, world, options(layout));
          source.fill(model.parameters(), *device);
          const Reading mine = read_with(model.engine());
          EXPECT_EQ(mine.scores, alone.scores) << family << ", rank " << world.rank();
          if (parallel::coordinates_of(layout, world.rank()).pipeline == layout.pipeline - 1) {
            EXPECT_EQ(mine.logits, alone.logits) << family << ", rank " << world.rank();
          }
        });
      }
    }
  }
}

/// One scale, or one for each block of rows and columns, under either name; beside scales of
/// inputs, which are passed over.
TEST_F(Fp8Store, ScalesOfTensorsAndOfBlocksAreRead) {
  const fs::path from = written(checkpoint(model_of("llama")), "fp8");
  const SafetensorsFolder folder(from);
  const Shape down = folder.find(kDown)->entry->shape;  // [64, 128]
  const std::string scale_name = std::string(kDown) + "_scale";
  const auto with = [&](const std::string& name, TensorContent scales, const json& config = {}) {
    return changed(
        from, name,
        [&](TensorContent tensor) -> std::optional<TensorContent> {
          return tensor.name == scale_name ? std::move(scales) : std::move(tensor);
        },
        config);
  };
  const std::vector<std::byte> codes = bytes_at(folder, kDown);
  const auto expect = [&](const fs::path& path, bool in_fp8, const auto& scale) {
    const ModelSource source = ModelSource::open(path, kShards);
    EXPECT_EQ(source.storage_formats(std::nullopt).contains("layers.0.mlp.down.weight"), in_fp8);
    const std::vector<std::byte> bytes =
        source.weights().read(*source.weights().find("layers.0.mlp.down.weight"));
    std::vector<float> values(codes.size());
    ASSERT_EQ(bytes.size(), codes.size() * sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (int64_t i = 0; i < down.num_elements(); ++i) {
      const float number =
          to_f32(f8_e4m3_t{std::to_integer<uint8_t>(codes[static_cast<size_t>(i)])});
      ASSERT_EQ(values[static_cast<size_t>(i)], number * scale(i / down[1], i % down[1])) << i;
    }
    read_with(filled(source, source.storage_formats(std::nullopt))->engine());
  };
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}})
    expect(with(fmt::format("one-{}", shape.num_dims()), floats(scale_name, shape, {0.375F})), true,
           [](int64_t, int64_t) { return 0.375F; });
  expect(with("rows", floats(scale_name, {down[0]}, std::vector<float>(64, 0.75F))), true,
         [](int64_t, int64_t) { return 0.75F; });
  std::vector<float> blocks;
  for (int i = 0; i < 2 * 3; ++i) blocks.push_back(1 + 0.25F * static_cast<float>(i));
  const json config{{"quant_method", "fp8"}, {"weight_block_size", {48, 50}}};
  for (const char* end : {"_scale", "_scale_inv"})
    expect(
        with(std::string("blocks") + end, floats(std::string(kDown) + end, {2, 3}, blocks), config),
        false, [&](int64_t row, int64_t column) {
          return blocks[static_cast<size_t>(row / 48 * 3 + column / 50)];
        });
  const auto as_it_is = [](TensorContent tensor) { return std::optional(std::move(tensor)); };
  EXPECT_NO_THROW(
      ModelSource::open(changed(from, "inputs", as_it_is, {},
                                {floats("model.layers.0.mlp.down_proj.input_scale", {}, {0.5F})}),
                        kShards));
  // Of no tensor in FP8.
  EXPECT_THROW(ModelSource::open(changed(from, "orphan", as_it_is, {},
                                         {floats("lm_head.input_scale", {}, {0.5F})}),
                                 kShards),
               IntegrityError);
}

TEST_F(Fp8Store, ScalesThatCannotBeAreFoundByName) {
  const fs::path from = written(checkpoint(model_of("llama")), "fp8");
  const std::string scale_name = std::string(kQuery) + "_scale";
  int count = 0;
  const auto fault = [&](const Change& change) -> std::string {
    const fs::path path = changed(from, fmt::format("broken-{}", count++), change);
    try {
      ModelSource::open(path, kShards);
    } catch (const IntegrityError& error) {
      return error.what();
    }
    return {};
  };
  const auto instead = [&](std::optional<TensorContent> scales) {
    return fault([&](TensorContent tensor) -> std::optional<TensorContent> {
      return tensor.name == scale_name ? scales : std::move(tensor);
    });
  };
  EXPECT_THAT(instead(std::nullopt), AllOf(HasSubstr(kQuery), HasSubstr("scales are missing")));
  EXPECT_THAT(instead(floats(scale_name, {63, 1}, std::vector<float>(63, 1))),
              AllOf(HasSubstr(scale_name), HasSubstr("[63, 1]")));
  EXPECT_THAT(instead(floats(scale_name, {2, 3}, std::vector<float>(6, 1))), HasSubstr("[2, 3]"));
  for (const float wrong : {0.0F, -0.0F, -1.0F, NAN, INFINITY}) {
    std::vector<float> scales(64, 1);
    scales[37] = wrong;
    EXPECT_THAT(instead(floats(scale_name, {64, 1}, scales)),
                AllOf(HasSubstr(scale_name), HasSubstr("positive number")));
  }
  EXPECT_THAT(
      instead(TensorContent{scale_name,
                            DType::u8,
                            {64, 1},
                            [](TensorContent::Sink sink) { sink(std::vector<std::byte>(64)); }}),
      AllOf(HasSubstr(scale_name), HasSubstr("floating type")));
  // Scales of what is not in FP8; codes of another type.
  EXPECT_THAT(fault([&](TensorContent tensor) -> std::optional<TensorContent> {
                if (tensor.name != kQuery) return tensor;
                return floats(kQuery, tensor.shape, std::vector<float>(64 * 64, 1));
              }),
              AllOf(HasSubstr(scale_name), HasSubstr("no part of the model")));
  EXPECT_THAT(fault([&](TensorContent tensor) -> std::optional<TensorContent> {
                if (tensor.name == kQuery) tensor.dtype = DType::f8_e5m2;
                return tensor;
              }),
              AllOf(HasSubstr(kQuery), HasSubstr("F8_E4M3")));
}

TEST_F(Fp8Store, WhatCannotBeInFp8IsRefusedByName) {
  const fs::path gpt2 = checkpoint(model_of("gpt2"));
  EXPECT_THAT(refusal([&] { written(gpt2, "gpt2"); }), HasSubstr("transposed"));
  EXPECT_THAT(refusal([&] {
                convert(gpt2, folder_ / "x", "megalith", "", kShardBytes, Tokenizers::carried, {},
                        {}, Fp8Weights::all);
              }),
              HasSubstr("format hf"));
  EXPECT_FALSE(fs::exists(folder_ / "gpt2"));
  std::vector<float> values(64, 1.0F);
  values[3] = INFINITY;
  EXPECT_FALSE(to_fp8(values, 32));
}

/// Rows of zeros, and rows whose scale would be denormal.
TEST_F(Fp8Store, RowsOfAnyMagnitudeHaveAScale) {
  std::vector<float> values(4 * 32, 0.0F);
  values[0] = -448;        // row 0: 1
  values[32] = 0x1p-140F;  // row 1: the least
  values[64] = 3.4e38F;    // row 2
  const auto matrix = to_fp8(values, 32);
  ASSERT_TRUE(matrix);
  float scales[4];
  std::memcpy(scales, matrix->data() + 128, sizeof scales);
  EXPECT_EQ(scales[0], 1);
  EXPECT_EQ(std::to_integer<int>((*matrix)[0]), 0xfe);
  EXPECT_EQ(scales[1], 0x1p-126F);
  EXPECT_NEAR(scales[2], 3.4e38F / 448, 3.4e38F / 448 / 64);
  EXPECT_EQ(scales[3], 1);
}

/// A run whose last layer alone was trained in 8 bits: no magnitude is looked at.
TEST_F(Fp8Store, WhatWasTrainedIn8BitsGoesOutWithItsScales) {
  const std::vector<std::string> products{"layers.1.attention.qkv.weight",
                                          "layers.1.mlp.down.weight"};
  const auto trained = [&](const std::string& name, const std::vector<float>& scales) {
    checkpoint::FolderContent content = content_of(model_of("llama"));
    content.state["fp8_products"] = products;
    content.tensors.push_back(floats("fp8.weight.scale", {std::ssize(scales)}, scales));
    checkpoint::write_checkpoint_folder(folder_ / name, content, 1);
    return folder_ / name;
  };
  const fs::path from = trained("trained", {640, 96});
  convert(from, folder_ / "plain", "hf", "");
  const SafetensorsFolder plain(folder_ / "plain"), folder(written(from, "fp8"));
  const auto expect = [&](const std::string& name, float scale) {
    const std::vector<float> values = floats_at(plain, name);
    const std::vector<std::byte> codes = bytes_at(folder, name);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(std::to_integer<uint8_t>(codes[i]), to_f8_e4m3(values[i] * scale).bits) << name;
    for (const float found : floats_at(folder, name + "_scale"))
      ASSERT_EQ(found, 1 / scale) << name;
  };
  expect(kQuery, 640);
  expect("model.layers.1.self_attn.v_proj.weight", 640);
  expect("model.layers.1.mlp.down_proj.weight", 96);
  EXPECT_EQ(folder.find(kDown)->entry->dtype, DType::f32);
  const json config = json::parse(read_file(folder_ / "fp8" / "config.json", 1 << 20));
  EXPECT_THAT(
      config["quantization_config"]["ignore"].get<std::vector<std::string>>(),
      AllOf(::testing::Contains("lm_head"), ::testing::Contains("model.layers.0.mlp.down_proj"),
            ::testing::Contains("model.layers.1.mlp.up_proj"),
            ::testing::Not(::testing::Contains("model.layers.1.self_attn.q_proj"))));
  EXPECT_EQ(ModelSource::open(from).storage_formats(Format::fp8).size(), products.size());
  for (const std::vector<float>& scales :
       {std::vector<float>{640, NAN}, std::vector<float>{640, 0},
        std::vector<float>{640, 0x1p-140F}, std::vector<float>{640}}) {
    const fs::path broken = trained("broken", scales);
    try {
      ModelSource::open(broken);
      ADD_FAILURE();
    } catch (const IntegrityError& error) {
      EXPECT_THAT(error.what(), HasSubstr("fp8.weight.scale"));
    }
  }
}

TEST_F(Fp8Store, ScalesOfTrainingMakeItsCodes) {
  std::vector<float> values(2 * 32, 0.0F);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01F * static_cast<float>(i) - 0.3F;
  const auto matrix = to_fp8(values, 32, 96.0F);
  ASSERT_TRUE(matrix);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(std::to_integer<uint8_t>((*matrix)[i]), to_f8_e4m3(values[i] * 96.0F).bits);
  float scales[2];
  std::memcpy(scales, matrix->data() + 64, sizeof scales);
  EXPECT_EQ(scales[0], 1 / 96.0F);
  EXPECT_EQ(scales[1], 1 / 96.0F);
}

}  // namespace
}  // namespace megalith::store

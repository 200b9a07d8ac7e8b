// SPDX-License-Identifier: Apache-2.0
// Tests only: small checkpoints, and models that hold their weights in blocks or in fp8.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "checkpoint/folder_writer.h"
#include "families/families.h"
#include "families/model_spec_json.h"
#include "inference/inference_model.h"
#include "models/foreign_map.h"
#include "store/model_source.h"
#include "tensor/blocks.h"

namespace megalith::store {

namespace fs = std::filesystem;
using inference::InferenceModel;

inline constexpr int kShards = 2;

inline models::ModelSpec model_of(std::string_view family) {
  models::Sizes sizes{.layers = 2,
                      .hidden = 64,
                      .heads = 4,
                      .kv_heads = family == "llama" || family == "qwen2" ? 2 : 0,
                      .ffn = 128,
                      .context = 40,
                      .vocab = 131};
  return models::family_named(family, "test").make(sizes, "test");
}

inline std::vector<int32_t> text() {
  std::vector<int32_t> ids(33);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 7 + i / 5) % 131);
  return ids;
}

struct Reading {
  std::vector<double> scores;
  std::vector<std::vector<float>> logits;  // of a prompt and of two tokens after it
  friend bool operator==(const Reading&, const Reading&) = default;
};

inline Reading read_with(inference::InferenceEngine& engine) {
  const std::vector<int32_t> ids = text();
  Reading reading;
  const bool reads = engine.spec().is_encoder_decoder();
  reading.scores = reads ? engine.score_target(ids, ids) : engine.score(ids);
  inference::KvCache cache =
      engine.begin(reads ? std::span(ids).first(20) : std::span(ids).first(1), 40).cache;
  for (const auto& [from, count] : {std::pair{size_t{0}, size_t{20}}, {20, 1}, {21, 1}})
    reading.logits.push_back(engine.extend(cache, std::span(ids).subspan(from, count)));
  return reading;
}

class QuantizedStore : public ::testing::Test {
 protected:
  QuantizedStore()
      : folder_(fs::path(::testing::TempDir()) /
                fmt::format("megalith-quantized-{}-{}", getpid(),
                            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~QuantizedStore() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  /// `spoilt`: a tensor that begins with a value whose scale f16 cannot hold.
  fs::path checkpoint(const models::ModelSpec& spec, const std::string& spoilt = {}) const {
    const fs::path path = folder_ / ("checkpoint-" + spec.family + spoilt);
    if (!fs::exists(path)) checkpoint::write_checkpoint_folder(path, content_of(spec, spoilt), 1);
    return path;
  }
  static checkpoint::FolderContent content_of(const models::ModelSpec& spec,
                                              const std::string& spoilt = {}) {
    checkpoint::FolderContent content;
    content.state = {{"architecture", models::to_json(spec)}, {"tensor_shards", kShards}};
    std::mt19937 random(7);
    for (const auto& tensor : models::declared_tensors(spec, kShards)) {
      std::vector<float> values(static_cast<size_t>(tensor.shape.num_elements()));
      const bool is_norm = tensor.shape.num_dims() == 1;
      for (float& value : values)
        value = (static_cast<float>(random()) * 0x1p-32F - 0.5F) / 4 + (is_norm ? 1.0F : 0.0F);
      // The padding of a vocabulary is zero.
      if (tensor.name == "embedding.weight" || tensor.name == "head.weight")
        std::fill(values.begin() + spec.vocab * tensor.shape[1], values.end(), 0.0F);
      if (tensor.name == spoilt) values[0] = 1e30F;
      content.tensors.push_back(
          {tensor.name, DType::f32, tensor.shape, [values](checkpoint::TensorContent::Sink sink) {
             sink(std::as_bytes(std::span(values)));
           }});
    }
    return content;
  }
  /// On one rank.
  std::unique_ptr<InferenceModel> filled(const ModelSource& source,
                                         const parameters::StorageFormats& formats) {
    auto model = std::make_unique<InferenceModel>(
        source.spec(), *device_,
        InferenceModel::Options{.tensor_shards = source.tensor_shards(), .formats = formats});
    source.fill(model->parameters(), *device_);
    return model;
  }
  /// The same in f32, with what its blocks widen to.
  std::unique_ptr<InferenceModel> widened(const ModelSource& source, InferenceModel& quantized) {
    auto model = filled(source, {});
    for (parameters::Parameter& parameter : model->parameters().all()) {
      const Weight weight = quantized.parameters().find(parameter.name())->compute();
      if (is_plain(weight.format)) continue;
      std::vector<float> values;
      for (int64_t row = 0; row < weight.shape[0]; ++row) {
        for (int64_t b = 0; b < weight.shape[1] / kBlockColumns; ++b) {
          float block[kBlockColumns];
          widen_block(weight, row, b, block);
          values.insert(values.end(), block, block + kBlockColumns);
        }
      }
      model->parameters().load(*device_, parameter, DType::f32, values.data());
    }
    return model;
  }
  static std::vector<std::byte> stored_bytes(const parameters::Parameter& parameter) {
    const View view = parameter.mutable_compute();
    return {view.data(), view.data() + view.bytes()};
  }
  /// In a file's order.
  static std::vector<std::byte> blocks_of(const parameters::Parameter& parameter) {
    const Weight weight = parameter.compute();
    const int64_t rows = weight.shape[0], columns = weight.shape[1];
    std::vector<std::byte> blocks(static_cast<size_t>(matrix_bytes(weight.format, rows, columns)));
    from_tiles(weight.format, {weight.view.data(), static_cast<size_t>(weight.view.bytes())}, rows,
               columns, blocks);
    return blocks;
  }
  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const UserError& error) {
      return error.what();
    }
    return {};
  }
  fs::path folder_;
  std::unique_ptr<device::Device> device_ = device::make_cpu_device(2);
};

}  // namespace megalith::store

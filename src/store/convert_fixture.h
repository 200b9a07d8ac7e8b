// SPDX-License-Identifier: Apache-2.0
// Tests only: Hugging Face folders of small models with random weights.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "checkpoint/safetensors_folder.h"
#include "families/families.h"
#include "models/foreign_map.h"
#include "text/tokenizer_fixture.h"

namespace megalith::store {

class ConvertFolders : public ::testing::Test {
 protected:
  ConvertFolders()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                fmt::format("megalith-convert-{}-{}", getpid(),
                            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ConvertFolders() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  static void put(const std::filesystem::path& path, std::string_view content) {
    File file(path, File::Mode::create_or_truncate);
    file.write(content);
    file.close();
  }
  static checkpoint::TensorContent random_tensor(const std::string& name, const Shape& shape,
                                                 unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> values(static_cast<size_t>(shape.num_elements()));
    for (float& value : values) value = static_cast<float>(random()) * 0x1p-32F - 0.5F;
    return {name, DType::f32, shape,
            [values = std::move(values)](checkpoint::TensorContent::Sink sink) {
              sink(std::as_bytes(std::span(values)));
            }};
  }
  /// GPT-2's tensors with random values; `prefix` as newer files have it.
  static std::vector<checkpoint::TensorContent> tensors(const models::ModelSpec& a,
                                                        bool prefix = true) {
    std::vector<checkpoint::TensorContent> list;
    const models::ForeignTable& table = models::family_named(a.family, "test").tensors;
    for (const models::TensorMap& map : models::tensor_maps(a, table)) {
      std::string last;
      for (const models::RowMove& move : map.moves) {
        if (move.name == last) continue;
        last = move.name;
        std::string name = move.name;
        if (!prefix && name.starts_with(table.prefix)) name.erase(0, table.prefix.size());
        list.push_back(random_tensor(name, move.shape, static_cast<unsigned>(list.size())));
      }
    }
    return list;
  }
  static nlohmann::json config() {
    return {{"model_type", "gpt2"}, {"vocab_size", 257}, {"n_positions", 24},  {"n_embd", 16},
            {"n_layer", 2},         {"n_head", 2},       {"eos_token_id", 256}};
  }
  std::filesystem::path write_foreign(const std::string& name,
                                      const std::vector<checkpoint::TensorContent>& list,
                                      const nlohmann::json& json = config()) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path);
    checkpoint::write_safetensors(path / "model.safetensors", list);
    put(path / "config.json", json.dump());
    put(path / "tokenizer.json", text::small_tokenizer({}).dump());
    put(path / "vocab.json", "{}");
    put(path / "merges.txt", "#version: 0.2\n");
    return path;
  }
  std::vector<std::string> names(const std::filesystem::path& path) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      names.push_back(entry.path().filename());
    return names;
  }
  std::filesystem::path folder_;
};

}  // namespace megalith::store

// SPDX-License-Identifier: Apache-2.0
// Tests only: folders of models and of low-rank adapters, with random values.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/safetensors_writer.h"
#include "families/families.h"
#include "families/hugging_face.h"
#include "models/foreign_map.h"
#include "store/convert_fixture.h"

namespace megalith::store {

namespace fs = std::filesystem;
using Json = nlohmann::json;

inline constexpr double kScale = 2;  // 8 / 4

struct Values {
  Shape shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Values>;

inline Values random_values(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Values made{shape, std::vector<float>(static_cast<size_t>(shape.num_elements()))};
  for (float& value : made.values) value = static_cast<float>(random()) * 0x1p-32F - 0.5F;
  return made;
}

/// A product of a layer, with its matrix as the folder's file has it.
struct Module {
  std::string name;
  Shape shape;
  bool transposed = false;
  bool of_inputs = false;  // its learned vector multiplies its input
  int64_t outputs() const { return shape[transposed ? 1 : 0]; }
  int64_t inputs() const { return shape[transposed ? 0 : 1]; }
};

class AdapterFolders : public ConvertFolders {
 protected:
  void save(const fs::path& path, const Tensors& tensors) const {
    std::vector<checkpoint::TensorContent> list;
    for (const auto& [name, tensor] : tensors)
      list.push_back({name, DType::f32, tensor.shape,
                      [values = tensor.values](checkpoint::TensorContent::Sink sink) {
                        sink(std::as_bytes(std::span(values)));
                      }});
    checkpoint::write_safetensors(path, list);
  }
  /// A folder of the model with these tensors.
  fs::path write_model(const std::string& name, const models::ModelSpec& spec,
                       const Tensors& tensors) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path);
    save(path / "model.safetensors", tensors);
    put(path / "config.json",
        models::hugging_face_config(spec, DType::f32, {}, std::nullopt, std::nullopt));
    return path;
  }
  static Json config(const Json& change = Json::object()) {
    Json json = {
        {"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}, {"target_modules", "all-linear"}};
    json.update(change);
    return json;
  }
  fs::path write_adapter(const std::string& name, const Tensors& tensors,
                         const Json& json = config()) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path);
    save(path / "adapter_model.safetensors", tensors);
    put(path / "adapter_config.json", json.dump());
    return path;
  }
};

inline Tensors base_tensors(const models::ModelSpec& spec) {
  Tensors tensors;
  const models::ForeignTable& table = models::family_named(spec.family, "test").tensors;
  for (const models::TensorMap& map : models::tensor_maps(spec, table)) {
    for (const models::RowMove& move : map.moves) {
      const auto seed = static_cast<unsigned>(tensors.size());
      tensors.emplace(move.name, random_values(move.shape, seed));
    }
  }
  return tensors;
}

inline std::vector<Module> modules_of(const models::ModelSpec& spec) {
  std::map<std::string, Module> modules;
  const models::ForeignTable& table = models::family_named(spec.family, "test").tensors;
  for (const models::TensorMap& map : models::tensor_maps(spec, table)) {
    const bool is_product = map.name.find("attention.") != std::string::npos ||
                            map.name.find("cross.") != std::string::npos ||
                            map.name.find("mlp.") != std::string::npos;
    if (map.shape.num_dims() != 2 || !is_product || map.name.starts_with("head.")) continue;
    for (const models::RowMove& move : map.moves) {
      const std::string name = move.name.substr(0, move.name.size() - 7);
      modules[name] = {name, move.shape, move.transposed, map.is_cut_by_columns};
    }
  }
  std::vector<Module> all;
  for (const auto& [name, module] : modules) all.push_back(module);
  return all;
}

inline std::string tensor_of(const Module& module, const char* factor) {
  return "base_model.model." + module.name + "." + factor + ".weight";
}

/// Factors of rank 4 for every product.
inline Tensors adapter_tensors(const models::ModelSpec& spec) {
  Tensors tensors;
  for (const Module& module : modules_of(spec)) {
    const auto seed = static_cast<unsigned>(1000 + tensors.size());
    tensors.emplace(tensor_of(module, "lora_A"), random_values(Shape{4, module.inputs()}, seed));
    tensors.emplace(tensor_of(module, "lora_B"),
                    random_values(Shape{module.outputs(), 4}, seed + 1));
  }
  return tensors;
}

/// With grouped keys if the family's config.json can have them.
inline models::ModelSpec small(const models::Family& family) {
  models::Sizes sizes{
      .layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 48, .context = 24, .vocab = 131};
  try {
    const models::ModelSpec grouped = family.make(sizes, "test");
    models::check_expressible(grouped);
    return grouped;
  } catch (const UserError&) {
    sizes.kv_heads = 0;
    return family.make(sizes, "test");
  }
}

}  // namespace megalith::store

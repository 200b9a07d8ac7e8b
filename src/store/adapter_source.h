// SPDX-License-Identifier: Apache-2.0
// A low-rank adapter on disk, as PEFT saves it (adapter_config.json, adapter_model.safetensors),
// against the model that it is for: its modules, named as the family's own folders name them, are
// found among our products, where several may be one (q, k and v in the fused projection) or one
// several rows of ours. Everything is checked when it is opened; values are read when they are
// asked for.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adapters/lora.h"
#include "checkpoint/safetensors.h"
#include "layers/adapter.h"
#include "models/foreign_map.h"
#include "store/model_source.h"

namespace megalith::store {

/// What adapters may add to, of a model in its family's folder: the products of its layers.
std::vector<models::TensorMap> adaptable_products(const models::ModelSpec& spec,
                                                  const models::ForeignTable& table,
                                                  int tensor_shards);

class AdapterSource {
 public:
  /// UserError when `folder` has no adapter, or its configuration asks for what has no code here;
  /// IntegrityError naming the tensor that is missing, misshapen, or no part of `base`.
  static AdapterSource open(const std::filesystem::path& folder, const ModelSource& base);

  /// What it adds to which weight of ours.
  const layers::AdapterRanks& ranks() const { return ranks_; }
  /// Elements of its tensors.
  int64_t parameters() const { return parameters_; }
  /// Differs where the adapter does: of its configuration and its tensors.
  std::string fingerprint() const;

  /// Reads all values: from here on nothing of the folder is needed, and nothing can fail.
  void hold();
  /// Fills what a rank has of it, of the parameters of `set`. Memory of the host: the factors of
  /// one weight, twice. Several ranks may call at once.
  void fill(layers::Adapter& adapter, const parameters::ParameterSet& set,
            device::Device& device) const;
  /// Both factors of a weight of ours, in f32 and row major, for the part of the weight that a
  /// shard names: a [I, R], b [R, O] with the scale in it, rounded once.
  struct Factors {
    int64_t rank = 0;
    std::vector<std::byte> a_IR, b_RO;
    std::vector<kernels::LowRankBlock> blocks;  // of b
  };
  Factors factors(const std::string& weight, const Shard& part) const;

 private:
  /// A module of the file as part of one of ours.
  struct Piece {
    const checkpoint::SafetensorsEntry *a = nullptr, *b = nullptr;
    double scale = 1;
    int64_t rank = 0;
    std::vector<models::RowMove> moves;  // rows of b to ours
  };
  struct Product {
    Shape shape;  // ours, [O, I]
    std::vector<Piece> pieces;
  };
  AdapterSource(const std::filesystem::path& folder, const ModelSource& base);
  void place(const models::TensorMap& map, const std::map<std::string, std::string>& modules);
  Piece piece_of(const std::string& module, const models::RowMove& move, int64_t inputs) const;
  static std::vector<Range> ranks_by_output(const std::string& weight, const Product& product);
  const checkpoint::SafetensorsEntry* factor(const std::string& name, const Shape& shape) const;
  std::vector<float> read(const checkpoint::SafetensorsEntry& entry) const;

  std::string config_;
  adapters::Lora lora_;
  std::unique_ptr<checkpoint::SafetensorsFile> file_;
  std::map<std::string, std::vector<float>> held_;  // values, by tensor
  std::map<std::string, Product> products_;         // by our weight
  layers::AdapterRanks ranks_;
  int64_t parameters_ = 0;
};

}  // namespace megalith::store

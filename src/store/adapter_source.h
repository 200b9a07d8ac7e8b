// SPDX-License-Identifier: Apache-2.0
// An adapter on disk, of low rank, of learned vectors or of virtual tokens, as PEFT saves it
// (adapter_config.json, adapter_model.safetensors), against the model that it is for: its modules,
// named as the family's own folders name them, are found among our products, where several may be
// one (q, k and v in the fused projection) or one several rows of ours. Everything is checked when
// it is opened; values are read when they are asked for.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/peft_config.h"
#include "checkpoint/safetensors.h"
#include "layers/adapter.h"
#include "models/foreign_map.h"
#include "store/model_source.h"

namespace megalith::store {

/// What adapters may add to, of a model in its family's folder: the products of its layers.
std::vector<models::TensorMap> adaptable_products(const models::ModelSpec& spec,
                                                  const models::ForeignTable& table,
                                                  int tensor_shards);

/// The files of PEFT's folders, and PEFT's prefix of the names of modules.
inline constexpr char kAdapterConfigName[] = "adapter_config.json";
inline constexpr char kAdapterTensorsName[] = "adapter_model.safetensors";
inline constexpr std::string_view kModulePrefix = "base_model.model.";
/// The prefix of a head's parameters.
inline constexpr std::string_view kHeadBegin = "head.";

class AdapterSource {
 public:
  /// UserError if `folder` has no adapter, if its configuration asks for something unsupported, or
  /// if its head is not that of `base` (classifier_head.h); IntegrityError naming the tensor that
  /// is missing, has another shape, or belongs to no module of `base`.
  static AdapterSource open(const std::filesystem::path& folder, const ModelSource& base);

  /// What it adds to which weight of ours.
  const layers::AdapterRanks& ranks() const { return ranks_; }
  /// Of virtual tokens that stand where a text has marks, how many in place of each; else none.
  const std::vector<int64_t>& splits() const { return splits_; }
  /// Elements of its tensors.
  int64_t parameters() const { return parameters_; }
  /// Differs where the adapter does: of its configuration and its tensors.
  std::string fingerprint() const;

  /// Reads all values: from here on nothing of the folder is needed, and nothing can fail.
  void hold();
  /// Fills a rank's part of `adapter`, for the parameters of `set`. With magnitudes the weights
  /// must have been loaded, and the call is collective over `tensor`. Host memory: the factors of
  /// one weight, twice. Several ranks may call at once. Ready on return.
  void fill(layers::Adapter& adapter, const parameters::ParameterSet& set, kernels::Exec& exec,
            comm::Communicator& tensor) const;
  /// Both factors of a weight of ours, f32 and row major, for the part of the weight that a shard
  /// names: a [I, R], b [R, O] times the scale, which is rounded to f32 first, as in training.
  struct Factors {
    int64_t rank = 0;
    std::vector<std::byte> a_IR, b_RO;
    std::vector<kernels::LowRankBlock> blocks;  // of b
  };
  Factors factors(const std::string& weight, const Shard& part) const;
  /// The vector of a weight of ours, for the part of the weight, or of its product's bias, that a
  /// shard names; 1 where modules have none.
  std::vector<float> vector(const std::string& weight, const Shard& part) const;
  /// The magnitude of each output of such a part; none for outputs of no module, and for all
  /// outputs of an adapter without magnitudes.
  std::vector<std::optional<float>> magnitudes(const std::string& weight, const Shard& part) const;

 private:
  /// A module of the file as part of one of ours.
  struct Piece {
    const checkpoint::SafetensorsEntry *a = nullptr, *b = nullptr;
    double scale = 1;
    int64_t rank = 0;
    std::vector<models::RowMove> moves;  // rows of b to ours
    // IA3's, in place of a and b; or the magnitudes, beside them.
    const checkpoint::SafetensorsEntry* vector = nullptr;
  };
  struct Product {
    Shape shape;  // ours, [O, I]
    std::vector<Piece> pieces;
  };
  AdapterSource(const std::filesystem::path& folder, const ModelSource& base);
  bool has_magnitudes() const;
  bool adapts(const std::string& module) const;
  /// By a module's name in the table, that in the file: some leave out the prefix.
  std::map<std::string, std::string> modules_of(const std::vector<models::TensorMap>& maps,
                                                const models::ForeignTable& table) const;
  void check_tensors(const std::map<std::string, std::string>& modules, const ModelSource& base);
  /// Names of the file's tensors that belong to `base`'s head, and have its values.
  std::set<std::string, std::less<>> head_tensors(const ModelSource& base,
                                                  const models::ForeignTable& table) const;
  void place(const models::TensorMap& map, const std::map<std::string, std::string>& modules);
  Piece piece_of(const std::string& module, const models::RowMove& move, int64_t inputs) const;
  void require_target(const std::string& module) const;
  Piece vector_piece(const adapters::Ia3& ia3, const std::string& module,
                     const models::RowMove& move, const models::TensorMap& map) const;
  void place_prompt(const adapters::VirtualPrompt& prompt, const ModelSource& base);
  void place_bottlenecks(const adapters::Bottlenecks& bottlenecks,
                         const std::vector<models::TensorMap>& maps, const ModelSource& base);
  void fill_bottleneck(layers::Adapter::Factors& factors, const std::string& weight,
                       device::Device& device) const;
  static std::vector<Range> ranks_by_output(const std::string& weight, const Product& product);
  const checkpoint::SafetensorsEntry* tensor(const std::string& name, const Shape& shape) const;
  std::vector<float> read(const checkpoint::SafetensorsEntry& entry) const;

  std::string config_;
  adapters::PeftConfig adapter_;
  std::unique_ptr<checkpoint::SafetensorsFile> file_;
  std::map<std::string, std::vector<float>> held_;        // values, by tensor
  std::map<std::string, Product> products_;               // by our weight
  const checkpoint::SafetensorsEntry* prompt_ = nullptr;  // its rows, in place of products
  /// Bottleneck adapters, in place of products, by the weight that they follow, in the order of
  /// adapters/bottleneck.h.
  std::map<std::string, std::array<const checkpoint::SafetensorsEntry*, 4>> bottlenecks_;
  std::vector<int64_t> splits_;
  layers::AdapterRanks ranks_;
  int64_t parameters_ = 0;
};

}  // namespace megalith::store

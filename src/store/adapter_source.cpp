// SPDX-License-Identifier: Apache-2.0
#include "store/adapter_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/folder.h"
#include "checkpoint/safetensors_folder.h"
#include "families/families.h"
#include "kernels/matmul/low_rank_blocks.h"
#include "spec/head_types.h"
#include "store/classifier_head.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;

constexpr char kAdapterPickleName[] = "adapter_model.bin";
/// Of AdapterHub's folders.
constexpr char kHubTensorsName[] = "adapter.safetensors", kHubPickleName[] = "pytorch_adapter.bin";
/// What PEFT puts behind the names of modules.
constexpr std::string_view kFirstFactor = ".lora_A.weight", kSecondFactor = ".lora_B.weight",
                           kMagnitudes = ".lora_magnitude_vector", kVector = ".ia3_l";
constexpr std::string_view kWeightSuffix = ".weight";

std::string read_adapter_config(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw UserError("{}: is no folder; name one that PEFT or AdapterHub has saved an adapter to",
                    folder.string());
  const fs::path path = folder / kAdapterConfigName;
  if (!fs::exists(path, error))
    throw UserError("{}: has no {}; name a folder that PEFT or AdapterHub has saved an adapter to",
                    folder.string(), kAdapterConfigName);
  return checkpoint::read_inside(path, folder, adapters::kMostConfigBytes);
}

fs::path adapter_tensors_path(const fs::path& folder, bool is_of_hub) {
  std::error_code error;
  const char* const name = is_of_hub ? kHubTensorsName : kAdapterTensorsName;
  const fs::path path = folder / name,
                 pickle = folder / (is_of_hub ? kHubPickleName : kAdapterPickleName);
  if (!fs::exists(path, error) && fs::exists(pickle, error)) {
    throw UserError("{}: a pickle, which may run code, is not read; save the adapter as {}",
                    pickle.string(), name);
  }
  if (!fs::exists(path, error)) throw IntegrityError("{}: is missing", path.string());
  checkpoint::require_inside(path, folder);
  require_regular(path);
  return path;
}

/// The name of the module with this weight.
std::string module_of(std::string_view weight) {
  return std::string(weight.substr(0, weight.size() - kWeightSuffix.size()));
}

/// Whether it has outputs of its own, which an adapter may bring.
bool has_classes(const layers::HeadSpec& head) {
  return !layers::head_type(head.kind).has_logits && head.outputs > 0;
}

int64_t foreign_outputs(const models::RowMove& move) { return move.shape[move.transposed ? 1 : 0]; }

}  // namespace

std::vector<models::TensorMap> adaptable_products(const models::ModelSpec& spec,
                                                  const models::ForeignTable& table,
                                                  int tensor_shards) {
  std::set<std::string> products;
  for (const models::DeclaredTensor& tensor : models::declared_tensors(spec, tensor_shards))
    if (tensor.may_be_in_blocks && tensor.name.find("layers.") != std::string::npos)
      products.insert(tensor.name);
  std::vector<models::TensorMap> maps = models::tensor_maps(spec, table, tensor_shards);
  std::erase_if(maps, [&](const auto& map) { return !products.contains(map.name); });
  return maps;
}

AdapterSource AdapterSource::open(const fs::path& folder, const ModelSource& base) {
  return {folder, base};
}

AdapterSource::AdapterSource(const fs::path& folder, const ModelSource& base)
    : config_(read_adapter_config(folder)),
      adapter_(adapters::parse_peft_config(config_, (folder / kAdapterConfigName).string(),
                                           has_classes(base.spec().head))),
      file_(std::make_unique<checkpoint::SafetensorsFile>(
          adapter_tensors_path(folder, std::holds_alternative<adapters::Bottlenecks>(adapter_)))) {
  if (const auto* const prompt = std::get_if<adapters::VirtualPrompt>(&adapter_)) {
    place_prompt(*prompt, base);
    return;
  }
  const models::ModelSpec& spec = base.spec();
  const models::ForeignTable& table =
      models::family_named(spec.family, base.weights().where()).tensors;
  const auto maps = adaptable_products(spec, table, base.tensor_shards());
  if (const auto* const bottlenecks = std::get_if<adapters::Bottlenecks>(&adapter_)) {
    place_bottlenecks(*bottlenecks, maps, base);
    return;
  }
  const std::map<std::string, std::string> modules = modules_of(maps, table);
  check_tensors(modules, base);
  for (const models::TensorMap& map : maps) place(map, modules);
  if (products_.empty()) {
    throw UserError("{}: target_modules names no product of {}",
                    (folder / kAdapterConfigName).string(), base.weights().where());
  }
}

bool AdapterSource::has_magnitudes() const {
  const auto* const lora = std::get_if<adapters::Lora>(&adapter_);
  return lora != nullptr && lora->has_magnitudes;
}

std::set<std::string, std::less<>> AdapterSource::head_tensors(
    const ModelSource& base, const models::ForeignTable& table) const {
  std::set<std::string, std::less<>> names;
  if (layers::head_type(base.spec().head.kind).has_logits) return names;
  for (const models::TensorMap& map :
       models::tensor_maps(base.spec(), table, base.tensor_shards())) {
    const std::string first = std::string(kModulePrefix) + map.moves.front().name;
    if (!map.name.starts_with(kHeadBegin) || file_->find(first) == nullptr) continue;
    const StoredTensor& own = *base.weights().find(map.name);
    if (convert_elements(own.name, base.weights().read(own), own.dtype, DType::f32) !=
        head_values(*file_, map)) {
      throw UserError(
          "{}: tensor {} is of another head than {} has; name the base model that it was tuned on",
          file_->path().string(), first, base.weights().where());
    }
    for (const models::RowMove& move : map.moves)
      names.insert(std::string(kModulePrefix) + move.name);
  }
  return names;
}

bool AdapterSource::adapts(const std::string& module) const {
  if (const auto* const ia3 = std::get_if<adapters::Ia3>(&adapter_)) return ia3->adapts(module);
  return std::get<adapters::Lora>(adapter_).adapts(module);
}

std::map<std::string, std::string> AdapterSource::modules_of(
    const std::vector<models::TensorMap>& maps, const models::ForeignTable& table) const {
  const bool has_vectors = std::holds_alternative<adapters::Ia3>(adapter_);
  std::map<std::string, std::string> modules;
  for (const models::TensorMap& map : maps) {
    for (const models::RowMove& move : map.moves) {
      for (const std::string& name : models::file_names(table, move.name)) {
        const std::string module = module_of(name);
        const bool is_there =
            file_->find(fmt::format("{}{}{}", kModulePrefix, module,
                                    has_vectors ? kVector : kFirstFactor)) != nullptr;
        if (!is_there && !adapts(module)) continue;
        if (is_there || !modules.contains(module_of(move.name)))
          modules[module_of(move.name)] = module;
        if (is_there) break;
      }
    }
  }
  return modules;
}

void AdapterSource::check_tensors(const std::map<std::string, std::string>& modules,
                                  const ModelSource& base) {
  const auto* const lora = std::get_if<adapters::Lora>(&adapter_);
  std::vector<std::string_view> ends = {kVector};
  if (lora != nullptr) ends = {kFirstFactor, kSecondFactor};
  if (lora != nullptr && lora->has_magnitudes) ends.push_back(kMagnitudes);
  std::set<std::string, std::less<>> known;  // in the file, of products
  for (const auto& [ours, theirs] : modules) known.insert(theirs);
  const auto of_head =
      head_tensors(base, models::family_named(base.spec().family, base.weights().where()).tensors);
  for (const checkpoint::SafetensorsEntry& entry : file_->entries()) {
    if (of_head.contains(entry.name)) continue;
    std::string_view name = entry.name;
    const auto end =
        std::ranges::find_if(ends, [&](std::string_view each) { return name.ends_with(each); });
    if (!name.starts_with(kModulePrefix) || end == ends.end()) {
      throw IntegrityError("{}: tensor {} is no {} of a product ({}NAME{})", file_->path().string(),
                           entry.name, lora != nullptr ? "factor" : "vector", kModulePrefix,
                           fmt::join(ends, " or "));
    }
    name.remove_prefix(kModulePrefix.size());
    name.remove_suffix(end->size());
    if (!known.contains(name)) {
      throw IntegrityError("{}: tensor {}: {} has no product {} that adapters may add to",
                           file_->path().string(), entry.name, base.weights().where(), name);
    }
    parameters_ += entry.shape.num_elements();
  }
}

void AdapterSource::place(const models::TensorMap& map,
                          const std::map<std::string, std::string>& modules) {
  const auto* const ia3 = std::get_if<adapters::Ia3>(&adapter_);
  Product product{map.shape, {}};
  std::map<std::string, size_t> placed;
  int64_t rank = 0;
  for (const models::RowMove& move : map.moves) {
    const auto module = modules.find(module_of(move.name));
    if (module == modules.end()) continue;
    const auto [at, is_new] = placed.emplace(module->second, product.pieces.size());
    if (is_new) {
      product.pieces.push_back(ia3 != nullptr ? vector_piece(*ia3, module->second, move, map)
                                              : piece_of(module->second, move, map.shape[1]));
      rank += product.pieces.back().rank;
    }
    product.pieces[at->second].moves.push_back(move);
  }
  if (product.pieces.empty()) return;
  using Vector = layers::AdapterRank::Vector;
  const auto packed = [&] {
    return kernels::packed_rank(kernels::blocks_of(ranks_by_output(map.name, product)));
  };
  ranks_.emplace(map.name, ia3 != nullptr
                               ? layers::AdapterRank(map.is_cut_by_columns ? Vector::of_inputs
                                                                           : Vector::of_outputs)
                               : layers::AdapterRank(rank, packed(), has_magnitudes()));
  products_.emplace(map.name, std::move(product));
}

AdapterSource::Piece AdapterSource::piece_of(const std::string& module, const models::RowMove& move,
                                             int64_t inputs) const {
  const auto& lora = std::get<adapters::Lora>(adapter_);
  require_target(module);
  Piece piece;
  piece.rank = lora.rank_of(module);
  piece.scale = lora.scale_of(module);
  const std::string begin = std::string(kModulePrefix) + module;
  piece.a = tensor(begin + std::string(kFirstFactor), Shape{piece.rank, inputs});
  piece.b = tensor(begin + std::string(kSecondFactor), Shape{foreign_outputs(move), piece.rank});
  if (lora.has_magnitudes)
    piece.vector = tensor(begin + std::string(kMagnitudes), Shape{foreign_outputs(move)});
  return piece;
}

AdapterSource::Piece AdapterSource::vector_piece(const adapters::Ia3& ia3,
                                                 const std::string& module,
                                                 const models::RowMove& move,
                                                 const models::TensorMap& map) const {
  require_target(module);
  const bool of_inputs = ia3.of_inputs(module);
  if (of_inputs != map.is_cut_by_columns) {
    throw UserError(
        "{}: a vector that multiplies the {} of {} is not supported; feedforward_modules may name "
        "what ends an attention or an MLP, and must where that is a target",
        file_->path().parent_path().string(), of_inputs ? "inputs" : "outputs", module);
  }
  Piece piece;
  piece.vector = tensor(fmt::format("{}{}{}", kModulePrefix, module, kVector),
                        of_inputs ? Shape{1, map.shape[1]} : Shape{foreign_outputs(move), 1});
  return piece;
}

void AdapterSource::require_target(const std::string& module) const {
  if (adapts(module)) return;
  throw IntegrityError("{}: holds {}, which is not among target_modules of {}",
                       file_->path().string(), module, kAdapterConfigName);
}

const checkpoint::SafetensorsEntry* AdapterSource::tensor(const std::string& name,
                                                          const Shape& shape) const {
  const checkpoint::SafetensorsEntry* const entry = file_->find(name);
  const std::string path = file_->path().string();
  if (entry == nullptr) throw IntegrityError("{}: tensor {} is missing", path, name);
  if (entry->shape != shape) {
    throw IntegrityError("{}: tensor {} is {}, the model and {} make it {}", path, name,
                         entry->shape, kAdapterConfigName, shape);
  }
  if (!entry->dtype || !is_weight_type(*entry->dtype)) {
    throw IntegrityError("{}: tensor {} is not of a floating type (F64, F32, F16 or BF16)", path,
                         name);
  }
  return entry;
}

}  // namespace megalith::store

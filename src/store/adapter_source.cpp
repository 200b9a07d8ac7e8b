// SPDX-License-Identifier: Apache-2.0
#include "store/adapter_source.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "adapters/peft_config.h"
#include "base/file.h"
#include "base/folder.h"
#include "checkpoint/safetensors_folder.h"
#include "families/families.h"
#include "kernels/matmul/low_rank_blocks.h"

namespace megalith::store {
namespace {

namespace fs = std::filesystem;

constexpr char kAdapterConfigName[] = "adapter_config.json";
constexpr char kAdapterTensorsName[] = "adapter_model.safetensors";
constexpr char kAdapterPickleName[] = "adapter_model.bin";
/// What PEFT puts before the names of modules, and behind.
constexpr std::string_view kModulePrefix = "base_model.model.";
constexpr std::string_view kFirstFactor = ".lora_A.weight", kSecondFactor = ".lora_B.weight";
constexpr std::string_view kWeightSuffix = ".weight";

std::string read_adapter_config(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw UserError("{}: is no folder; name one that PEFT has saved an adapter to",
                    folder.string());
  const fs::path path = folder / kAdapterConfigName;
  if (!fs::exists(path, error))
    throw UserError("{}: has no {}; name a folder that PEFT has saved an adapter to",
                    folder.string(), kAdapterConfigName);
  checkpoint::require_inside(path, folder);
  return read_regular(path, adapters::kMostConfigBytes);
}

fs::path adapter_tensors_path(const fs::path& folder) {
  std::error_code error;
  const fs::path path = folder / kAdapterTensorsName;
  if (!fs::exists(path, error) && fs::exists(folder / kAdapterPickleName, error)) {
    throw UserError("{}: a pickle, which may run code, is not read; save the adapter as {}",
                    (folder / kAdapterPickleName).string(), kAdapterTensorsName);
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

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
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
      lora_(adapters::parse_peft_config(config_, (folder / kAdapterConfigName).string())),
      file_(std::make_unique<checkpoint::SafetensorsFile>(adapter_tensors_path(folder))) {
  const models::ModelSpec& spec = base.spec();
  const models::ForeignTable& table =
      models::family_named(spec.family, base.weights().where()).tensors;
  const auto maps = adaptable_products(spec, table, base.tensor_shards());
  // By a module's name in the table, that in the file: some leave out the prefix.
  std::map<std::string, std::string> modules;
  std::set<std::string> known;  // in the file, of products
  for (const models::TensorMap& map : maps) {
    for (const models::RowMove& move : map.moves) {
      for (const std::string& name : models::file_names(table, move.name)) {
        const std::string module = module_of(name);
        const bool is_there =
            file_->find(fmt::format("{}{}{}", kModulePrefix, module, kFirstFactor)) != nullptr;
        if (!is_there && !lora_.adapts(module)) continue;
        if (is_there || !modules.contains(module_of(move.name)))
          modules[module_of(move.name)] = module;
        if (is_there) break;
      }
    }
  }
  for (const auto& [ours, theirs] : modules) known.insert(theirs);
  for (const checkpoint::SafetensorsEntry& entry : file_->entries()) {
    std::string_view name = entry.name;
    const bool is_factor = name.starts_with(kModulePrefix) &&
                           (name.ends_with(kFirstFactor) || name.ends_with(kSecondFactor));
    if (!is_factor) {
      throw IntegrityError("{}: tensor {} is no factor of a product ({}NAME{} or {})",
                           file_->path().string(), entry.name, kModulePrefix, kFirstFactor,
                           kSecondFactor);
    }
    name.remove_prefix(kModulePrefix.size());
    name.remove_suffix(kFirstFactor.size());
    if (!known.contains(std::string(name))) {
      throw IntegrityError("{}: tensor {}: {} has no product {} that adapters may add to",
                           file_->path().string(), entry.name, base.weights().where(), name);
    }
    parameters_ += entry.shape.num_elements();
  }
  for (const models::TensorMap& map : maps) place(map, modules);
  if (products_.empty()) {
    throw UserError("{}: target_modules names no product of {}",
                    (folder / kAdapterConfigName).string(), base.weights().where());
  }
}

void AdapterSource::place(const models::TensorMap& map,
                          const std::map<std::string, std::string>& modules) {
  Product product{map.shape, {}};
  std::map<std::string, size_t> placed;
  int64_t rank = 0;
  for (const models::RowMove& move : map.moves) {
    const auto module = modules.find(module_of(move.name));
    if (module == modules.end()) continue;
    const auto [at, is_new] = placed.emplace(module->second, product.pieces.size());
    if (is_new) {
      product.pieces.push_back(piece_of(module->second, move, map.shape[1]));
      rank += product.pieces.back().rank;
    }
    product.pieces[at->second].moves.push_back(move);
  }
  if (product.pieces.empty()) return;
  const int64_t packed =
      kernels::packed_rank(kernels::blocks_of(ranks_by_output(map.name, product)));
  ranks_.emplace(map.name, layers::AdapterRank(rank, packed));
  products_.emplace(map.name, std::move(product));
}

AdapterSource::Piece AdapterSource::piece_of(const std::string& module, const models::RowMove& move,
                                             int64_t inputs) const {
  if (!lora_.adapts(module)) {
    throw IntegrityError("{}: holds {}, which is not among target_modules of {}",
                         file_->path().string(), module, kAdapterConfigName);
  }
  Piece piece;
  piece.rank = lora_.rank_of(module);
  piece.scale = lora_.scale_of(module);
  const std::string begin = std::string(kModulePrefix) + module;
  piece.a = factor(begin + std::string(kFirstFactor), Shape{piece.rank, inputs});
  piece.b = factor(begin + std::string(kSecondFactor), Shape{foreign_outputs(move), piece.rank});
  return piece;
}

/// Of a product, by its outputs, the ranks of the piece that has them.
std::vector<Range> AdapterSource::ranks_by_output(const std::string& weight,
                                                  const Product& product) {
  const auto outputs = static_cast<size_t>(product.shape[0]);
  std::vector<Range> ranks(outputs);
  int64_t at = 0;
  for (const Piece& piece : product.pieces) {
    const int64_t theirs = piece.b->shape[0];
    const std::vector<uint8_t> ones(static_cast<size_t>(theirs), 1);
    std::vector<uint8_t> has(outputs, 0);
    for (models::RowMove move : piece.moves) {
      move.transposed = false;
      move.shape = Shape{theirs, 1};
      models::to_ours({weight, Shape{product.shape[0], 1}, {}}, move, 1, ones.data(), has.data());
    }
    for (size_t o = 0; o < outputs; ++o)
      if (has[o] != 0) ranks[o] = {at, at + piece.rank};
    at += piece.rank;
  }
  return ranks;
}

const checkpoint::SafetensorsEntry* AdapterSource::factor(const std::string& name,
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

void AdapterSource::hold() {
  for (const checkpoint::SafetensorsEntry& entry : file_->entries())
    held_.try_emplace(entry.name, read(entry));
}

std::vector<float> AdapterSource::read(const checkpoint::SafetensorsEntry& entry) const {
  if (const auto held = held_.find(entry.name); held != held_.end()) return held->second;
  std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes));
  file_->read(entry, 0, entry.bytes, bytes.data());
  return floats_of(convert_elements(entry.name, std::move(bytes), *entry.dtype, DType::f32));
}

AdapterSource::Factors AdapterSource::factors(const std::string& weight, const Shard& part) const {
  const Product& product = products_.at(weight);
  const int64_t outputs = product.shape[0], inputs = product.shape[1];
  const int64_t rank = ranks_.find(weight)->second.rank;
  std::vector<float> a_IR(static_cast<size_t>(inputs * rank));
  std::vector<float> b_RO(static_cast<size_t>(rank * outputs));
  int64_t at = 0;  // of the rank
  for (const Piece& piece : product.pieces) {
    const std::vector<float> a_RI = read(*piece.a), theirs_OR = read(*piece.b);
    const Shape shape{outputs, piece.rank};
    std::vector<float> b_OR(static_cast<size_t>(shape.num_elements()));
    for (models::RowMove move : piece.moves) {
      move.transposed = false;
      move.shape = piece.b->shape;
      models::to_ours({weight, shape, {}}, move, sizeof(float), theirs_OR.data(), b_OR.data());
    }
    for (int64_t r = 0; r < piece.rank; ++r) {
      for (int64_t i = 0; i < inputs; ++i)
        a_IR[static_cast<size_t>(i * rank + at + r)] = a_RI[static_cast<size_t>(r * inputs + i)];
      for (int64_t o = 0; o < outputs; ++o) {
        const double b = b_OR[static_cast<size_t>(o * piece.rank + r)];
        b_RO[static_cast<size_t>((at + r) * outputs + o)] = static_cast<float>(piece.scale * b);
      }
    }
    at += piece.rank;
  }
  const auto cut = [](const std::vector<float>& whole, const Shape& shape, Shard shard) {
    const auto bytes = std::as_bytes(std::span(whole));
    return part_of({bytes.begin(), bytes.end()}, shape, shard, DType::f32);
  };
  // The factor that has the dimension which is cut has it the other way round.
  Shard turned = part;
  turned.dim = 1 - part.dim;
  const Shape a{inputs, rank}, b{rank, outputs};
  const bool cuts_outputs = part.dim == 0;
  return {rank, cut(a_IR, a, cuts_outputs ? Shard::whole(a) : turned),
          cut(b_RO, b, cuts_outputs ? turned : Shard::whole(b)),
          kernels::blocks_of(ranks_by_output(weight, product),
                             cuts_outputs ? part : Shard::whole(product.shape))};
}

void AdapterSource::fill(layers::Adapter& adapter, const parameters::ParameterSet& set,
                         device::Device& device) const {
  std::set<std::string> done;  // layers may share weights
  for (const parameters::Parameter& parameter : set.all()) {
    const auto room = adapter.factors().find(parameter.name());
    if (room == adapter.factors().end() || !done.insert(parameter.name()).second) continue;
    const Factors host = factors(parameter.name(), parameter.declaration().shard);
    const View b_PO = room->second.b_PO;
    const std::vector<float> b =
        kernels::packed(floats_of(host.b_RO), b_PO.size(1), host.blocks, b_PO.size(0));
    room->second.blocks = host.blocks;
    device.copy_to_device(room->second.a_IR, host.a_IR.data());
    device.wait(device.copy_to_device(b_PO, b.data()));
  }
}

std::string AdapterSource::fingerprint() const {
  Sha256 sha;
  sha.update(config_.data(), config_.size());
  for (const checkpoint::SafetensorsEntry& entry : file_->entries()) {
    const std::string head = fmt::format("{} {} {}\n", entry.name, entry.shape, entry.begin);
    sha.update(head.data(), head.size());
    std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes));
    file_->read(entry, 0, entry.bytes, bytes.data());
    sha.update(bytes.data(), bytes.size());
  }
  return sha.finish();
}

}  // namespace megalith::store

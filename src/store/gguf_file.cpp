// SPDX-License-Identifier: Apache-2.0
#include "store/gguf_file.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/function_ref.h"
#include "base/integer.h"
#include "gguf/widen.h"
#include "models/foreign_map.h"
#include "store/gguf_layout.h"
#include "store/quantization.h"
#include "tensor/blocks.h"

namespace megalith::store {
namespace {

/// Of which a long read is made.
constexpr int64_t kPartBytes = int64_t{16} << 20;
/// Of a tensor of rotary factors: one for each pair of a head.
constexpr int64_t kMaxFactors = 1 << 16;

/// As what its elements are read.
DType dtype_of(gguf::TensorType type) {
  switch (type) {
    case gguf::TensorType::f16:
      return DType::f16;
    case gguf::TensorType::bf16:
      return DType::bf16;
    case gguf::TensorType::f64:
      return DType::f64;
    default:
      return DType::f32;
  }
}

bool is_read(gguf::TensorType type) {
  return type == gguf::TensorType::f64 || gguf::can_widen(type);
}

std::vector<std::byte> raw_bytes(const gguf::Reader& file, const gguf::TensorEntry& entry,
                                 const checkpoint::AtWork& at_work) {
  std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes));
  for (int64_t at = 0; at < entry.bytes; at += kPartBytes) {
    if (at_work) at_work();
    file.read(entry, at, std::min(kPartBytes, entry.bytes - at), bytes.data() + at);
  }
  return bytes;
}

/// The elements as their dtype_of().
std::vector<std::byte> elements_of(const gguf::Reader& file, const gguf::TensorEntry& entry,
                                   const checkpoint::AtWork& at_work) {
  std::vector<std::byte> raw = raw_bytes(file, entry, at_work);
  if (dtype_of(entry.type) != DType::f32 || entry.type == gguf::TensorType::f32) return raw;
  std::vector<std::byte> wide(static_cast<size_t>(entry.shape.num_elements()) * sizeof(float));
  gguf::widen(entry.type, raw,
              {reinterpret_cast<float*>(wide.data()), wide.size() / sizeof(float)});
  return wide;
}

class GgufWeights : public Weights {
 public:
  GgufWeights(std::shared_ptr<const gguf::Reader> file, const models::ModelSpec& spec,
              int tensor_shards)
      : file_(std::move(file)), spec_(spec), architecture_(gguf_models::architecture_of(spec)) {
    // Before anything is made for each layer.
    if (spec.num_layers() > static_cast<int64_t>(file_->tensors().size())) {
      throw IntegrityError("{}: the metadata has {} layers, the file {} tensors", where(),
                           spec.num_layers(), file_->tensors().size());
    }
    for (models::TensorMap& map : models::tensor_maps(spec, architecture_.tensors, tensor_shards)) {
      for (const models::RowMove& move : map.moves) {
        check(move);
        used_.insert(move.name);
      }
      tensors_.push_back({map.name, map.shape, common_type(map), common_blocks(map)});
      maps_.emplace(map.name, std::move(map));
    }
    for (const gguf::TensorEntry& entry : file_->tensors()) {
      if (used_.contains(entry.name) || models::is_buffer(architecture_.tensors, entry.name))
        continue;
      throw IntegrityError("{}: tensor {} is no part of the model that the metadata describes",
                           where(), entry.name);
    }
  }
  using Weights::read;
  std::vector<std::byte> read(const StoredTensor& tensor, const Shard& part,
                              const checkpoint::AtWork& at_work) const override {
    const models::TensorMap& map = maps_.at(tensor.name);
    const int64_t each = bytes_of(tensor.dtype);
    std::vector<std::byte> ours = gathered(map, each, [&](const models::RowMove& move) {
      return read_foreign(move, tensor.dtype, at_work);
    });
    if (const float offset = stored_offset(spec_, tensor.name); offset != 0) {
      auto* const values = reinterpret_cast<float*>(ours.data());
      for (int64_t i = 0; i < tensor.shape.num_elements(); ++i) values[i] -= offset;
    }
    return part_of(std::move(ours), tensor.shape, part, tensor.dtype);
  }
  std::vector<std::byte> read_blocks(const StoredTensor& tensor, const Shard& part,
                                     const checkpoint::AtWork& at_work) const override {
    // Rows of bytes go where rows of elements would.
    const int64_t each = block_bytes(tensor.blocks.value());
    const auto in_bytes = [&](Shape shape) {
      shape.set(1, shape[1] / kBlockColumns * each);
      return shape;
    };
    models::TensorMap map = maps_.at(tensor.name);
    map.shape = in_bytes(map.shape);
    for (models::RowMove& move : map.moves) move.shape = in_bytes(move.shape);
    std::vector<std::byte> ours = gathered(map, 1, [&](const models::RowMove& move) {
      std::vector<std::byte> theirs = raw_bytes(*file_, *file_->find(move.name), at_work);
      if (const int64_t head_dim = paired_head_dim(architecture_, spec_, move.name))
        unpair_rows(theirs, move.shape[0], head_dim);
      return theirs;
    });
    Shard cut = part;
    if (cut.dim == 1) {
      for (int64_t* at : {&cut.begin, &cut.count, &cut.second_begin, &cut.second_count})
        *at = exact_div(*at, kBlockColumns) * each;
    }
    return part_of(std::move(ours), map.shape, cut, DType::u8);
  }
  std::string fingerprint() const override {
    const File file(file_->path(), File::Mode::read);
    std::string begin(static_cast<size_t>(std::min<int64_t>(file.size(), int64_t{1} << 20)), '\0');
    file.read_at(begin.data(), begin.size(), 0);
    begin += std::to_string(file.size());
    return sha256(std::as_bytes(std::span(begin)));
  }
  std::string where() const override { return file_->path().string(); }

 private:
  void check(const models::RowMove& move) const {
    const gguf::TensorEntry* entry = file_->find(move.name);
    if (entry == nullptr) throw IntegrityError("{}: tensor {} is missing", where(), move.name);
    if (entry->shape != move.shape) {
      throw IntegrityError("{}: tensor {} is {}, the metadata makes it {}", where(), move.name,
                           entry->shape, move.shape);
    }
    if (!is_read(entry->type)) {
      throw UserError("{}: tensor {} is stored as {}, which is not supported", where(), move.name,
                      entry->type);
    }
  }

  /// Our tensor, in elements of `each` bytes, from the file's that `read_theirs` reads: each once,
  /// though several moves of it may follow one another.
  static std::vector<std::byte> gathered(
      const models::TensorMap& map, int64_t each,
      FunctionRef<std::vector<std::byte>(const models::RowMove&)> read_theirs) {
    std::vector<std::byte> ours(static_cast<size_t>(map.shape.num_elements() * each));
    std::string last;
    std::vector<std::byte> theirs;
    for (const models::RowMove& move : map.moves) {
      if (move.name != last) {
        theirs = read_theirs(move);
        last = move.name;
      }
      models::to_ours(map, move, each, theirs.data(), ours.data());
    }
    return ours;
  }

  /// That of its pieces; f32 when they differ (f64 if one is), and where an offset is taken off.
  DType common_type(const models::TensorMap& map) const {
    if (stored_offset(spec_, map.name) != 0) return DType::f32;
    DType common = dtype_of(file_->find(map.moves.front().name)->type);
    for (const models::RowMove& move : map.moves) {
      const DType dtype = dtype_of(file_->find(move.name)->type);
      if (dtype == common) continue;
      common = dtype == DType::f64 || common == DType::f64 ? DType::f64 : DType::f32;
    }
    return common;
  }

  /// That of its pieces, where they have one.
  std::optional<Format> common_blocks(const models::TensorMap& map) const {
    if (stored_offset(spec_, map.name) != 0 || map.shape.num_dims() != 2) return std::nullopt;
    const std::optional<Format> first = format_of(file_->find(map.moves.front().name)->type);
    for (const models::RowMove& move : map.moves) {
      if (move.transposed || format_of(file_->find(move.name)->type) != first) return std::nullopt;
    }
    return first;
  }

  /// Rows in our order, elements as `dtype`.
  std::vector<std::byte> read_foreign(const models::RowMove& move, DType dtype,
                                      const checkpoint::AtWork& at_work) const {
    const gguf::TensorEntry& entry = *file_->find(move.name);
    std::vector<std::byte> elements = elements_of(*file_, entry, at_work);
    if (const int64_t head_dim = paired_head_dim(architecture_, spec_, move.name))
      unpair_rows(elements, entry.shape[0], head_dim);
    return convert_elements(move.name, std::move(elements), dtype_of(entry.type), dtype);
  }

  std::shared_ptr<const gguf::Reader> file_;
  models::ModelSpec spec_;
  const gguf_models::Architecture& architecture_;
  std::map<std::string, models::TensorMap> maps_;  // by our name
  std::set<std::string, std::less<>> used_;        // theirs
};

}  // namespace

gguf_models::ModelDescription describe_gguf(const gguf::Reader& file) {
  gguf_models::ModelDescription description;
  description.metadata = file.metadata();
  for (const gguf::TensorEntry& entry : file.tensors()) description.tensors.insert(entry.name);
  const gguf::TensorEntry* const table = file.find("token_embd.weight");
  if (table != nullptr && table->shape.num_dims() == 2) description.vocab_rows = table->shape[0];
  for (const std::string_view name : gguf_models::kFactorTensors) {
    const gguf::TensorEntry* const entry = file.find(name);
    if (entry == nullptr) continue;
    if (entry->type != gguf::TensorType::f32 || entry->shape.num_elements() > kMaxFactors) {
      throw IntegrityError("{}: tensor {} is {} {}, must be F32 and at most {} numbers",
                           file.path().string(), name, entry->type, entry->shape, kMaxFactors);
    }
    std::vector<float> values(static_cast<size_t>(entry->shape.num_elements()));
    file.read(*entry, 0, entry->bytes, values.data());
    description.factors.emplace(name, std::move(values));
  }
  return description;
}

std::unique_ptr<Weights> gguf_weights(std::shared_ptr<const gguf::Reader> file,
                                      const models::ModelSpec& spec, int tensor_shards) {
  return std::make_unique<GgufWeights>(std::move(file), spec, tensor_shards);
}

}  // namespace megalith::store

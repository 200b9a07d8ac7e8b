// SPDX-License-Identifier: Apache-2.0
#include "store/stored_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors_folder.h"
#include "families/families.h"
#include "models/foreign_map.h"

namespace megalith::store {
namespace {

class CheckpointWeights : public Weights {
 public:
  CheckpointWeights(std::shared_ptr<const checkpoint::Reader> reader, const models::ModelSpec& spec,
                    int tensor_shards)
      : reader_(std::move(reader)) {
    for (const auto& [name, shape, in_blocks] : models::declared_tensors(spec, tensor_shards)) {
      const checkpoint::TensorInfo* info = reader_->find(name);
      if (info == nullptr) throw IntegrityError("{}: tensor {} is missing", where(), name);
      if (info->shape != shape || !is_weight_type(info->dtype)) {
        throw IntegrityError("{}: tensor {} is {} {}, the model needs {}", where(), name,
                             info->dtype, info->shape, shape);
      }
      tensors_.push_back({name, shape, info->dtype});
    }
  }
  using Weights::read;
  std::vector<std::byte> read(const StoredTensor& tensor, const Shard& part,
                              const checkpoint::AtWork& at_work) const override {
    const int64_t bytes = part.local_shape(tensor.shape).num_elements() * bytes_of(tensor.dtype);
    std::vector<std::byte> host(static_cast<size_t>(bytes));
    reader_->read(tensor.name, part, host.data(), at_work);
    return host;
  }
  std::string fingerprint() const override { return reader_->state_sha256(); }
  std::string where() const override { return reader_->folder().string(); }

 private:
  std::shared_ptr<const checkpoint::Reader> reader_;
};

using Location = checkpoint::SafetensorsFolder::Location;

std::vector<std::byte> stored_bytes(const Location& location, const checkpoint::AtWork& at_work) {
  std::vector<std::byte> bytes(static_cast<size_t>(location.entry->bytes));
  location.file->read(*location.entry, 0, location.entry->bytes, bytes.data(), at_work);
  return bytes;
}

bool are_same(const Location& one, const Location& other, const checkpoint::AtWork& at_work) {
  return one.entry->shape == other.entry->shape && one.entry->dtype == other.entry->dtype &&
         stored_bytes(one, at_work) == stored_bytes(other, at_work);
}

class HuggingFaceWeights : public Weights {
 public:
  HuggingFaceWeights(const std::string& folder, const models::ModelSpec& spec, int tensor_shards,
                     const checkpoint::AtWork& at_work)
      : folder_name_(folder),
        folder_(folder),
        table_(models::family_named(spec.family, folder).tensors) {
    for (models::TensorMap& map : models::tensor_maps(spec, table_, tensor_shards)) {
      for (models::RowMove& move : map.moves) {
        move.name = stored_name(move.name);
        check(move);
        used_.insert(move.name);
      }
      tensors_.push_back({map.name, map.shape, common_type(map)});
      maps_.emplace(map.name, std::move(map));
    }
    check_rest(spec, at_work);
  }
  using Weights::read;
  std::vector<std::byte> read(const StoredTensor& tensor, const Shard& part,
                              const checkpoint::AtWork& at_work) const override {
    const models::TensorMap& map = maps_.at(tensor.name);
    const int64_t each = bytes_of(tensor.dtype);
    std::vector<std::byte> ours(static_cast<size_t>(tensor.shape.num_elements() * each));
    std::string last;
    std::vector<std::byte> theirs;
    for (const models::RowMove& move : map.moves) {
      if (move.name != last) {
        theirs = convert_elements(move.name, stored_bytes(*folder_.find(move.name), at_work),
                                  *folder_.find(move.name)->entry->dtype, tensor.dtype);
        last = move.name;
      }
      models::to_ours(map, move, each, theirs.data(), ours.data());
    }
    return part_of(std::move(ours), tensor.shape, part, tensor.dtype);
  }
  std::string fingerprint() const override {
    std::map<std::string, std::string> files;  // by name
    for (const auto& [name, location] : folder_.tensors()) {
      const std::filesystem::path& path = location.file->path();
      std::string& begin = files[path.filename().string()];
      if (!begin.empty()) continue;
      const File file(path, File::Mode::read);
      begin.resize(static_cast<size_t>(std::min<int64_t>(file.size(), int64_t{1} << 20)));
      file.read_at(begin.data(), begin.size(), 0);
      begin += std::to_string(file.size());
    }
    Sha256 sha;
    for (const auto& [name, begin] : files) {
      sha.update(name.data(), name.size());
      sha.update(begin.data(), begin.size());
    }
    return sha.finish();
  }
  std::string where() const override { return folder_name_; }

 private:
  /// A model without its head is often stored without the prefix.
  std::string stored_name(const std::string& name) const {
    for (std::string& each : models::file_names(table_, name)) {
      if (folder_.find(each) != nullptr) return std::move(each);
    }
    throw IntegrityError("{}: tensor {} is missing", folder_name_, name);
  }

  void check(const models::RowMove& move) const {
    const Location& location = *folder_.find(move.name);
    const std::string file = location.file->path().string();
    if (location.entry->shape != move.shape) {
      throw IntegrityError("{}: tensor {} is {}, config.json makes it {}", file, move.name,
                           location.entry->shape, move.shape);
    }
    if (!location.entry->dtype || !is_weight_type(*location.entry->dtype)) {
      throw IntegrityError("{}: tensor {} is not of a floating type (F64, F32, F16 or BF16)", file,
                           move.name);
    }
  }

  /// That of its pieces; f32 when they differ (f64 if one is).
  DType common_type(const models::TensorMap& map) const {
    DType common = *folder_.find(map.moves.front().name)->entry->dtype;
    for (const models::RowMove& move : map.moves) {
      const DType dtype = *folder_.find(move.name)->entry->dtype;
      if (dtype == common) continue;
      common = dtype == DType::f64 || common == DType::f64 ? DType::f64 : DType::f32;
    }
    return common;
  }

  /// Everything else must be a known buffer, or the copy of a tied head.
  void check_rest(const models::ModelSpec& spec, const checkpoint::AtWork& at_work) const {
    for (const auto& [name, location] : folder_.tensors()) {
      if (used_.contains(name) || models::is_buffer(table_, name)) continue;
      if (spec.head.tied && is_head(name)) {
        check_same(name, maps_.at("embedding.weight").moves.front().name,
                   ", but config.json says they are tied (tie_word_embeddings); set it to false or "
                   "remove the tensor",
                   at_work);
        continue;
      }
      if (const auto twin = std::ranges::find(table_.twins, name, &models::ForeignAlias::other);
          twin != table_.twins.end()) {
        check_same(name, stored_name(std::string(twin->name)),
                   ", and the model has one table of them", at_work);
        continue;
      }
      throw IntegrityError("{}: tensor {} is no part of the model that config.json describes",
                           location.file->path().string(), name);
    }
  }

  bool is_head(const std::string& name) const {
    const auto names = models::file_names(table_, std::string(models::head_name(table_)));
    return std::ranges::find(names, name) != names.end();
  }

  /// `why`: it must be the same.
  void check_same(const std::string& name, const std::string& other_name, std::string_view why,
                  const checkpoint::AtWork& at_work) const {
    const Location& one = *folder_.find(name);
    if (are_same(one, *folder_.find(other_name), at_work)) return;
    throw IntegrityError("{}: tensor {} differs from {}{}", one.file->path().string(), name,
                         other_name, why);
  }

  std::string folder_name_;
  checkpoint::SafetensorsFolder folder_;
  models::ForeignTable table_;
  std::map<std::string, models::TensorMap> maps_;  // by our name
  std::set<std::string> used_;                     // theirs
};

float element_as_f32(const std::byte* at, DType dtype) {
  const auto load = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f64:
      return static_cast<float>(load(double{}));
    case DType::f32:
      return load(float{});
    case DType::f16:
      return to_f32(load(f16_t{}));
    case DType::bf16:
      return to_f32(load(bf16_t{}));
    default:
      MEGA_CHECK(false, "a weight of type {}", dtype);
  }
}

void store_element(std::byte* at, DType dtype, float value) {
  const auto store = [&](auto stored) { std::memcpy(at, &stored, sizeof stored); };
  switch (dtype) {
    case DType::f64:
      return store(static_cast<double>(value));
    case DType::f32:
      return store(value);
    case DType::f16:
      return store(to_f16(value));
    case DType::bf16:
      return store(to_bf16(value));
    default:
      MEGA_CHECK(false, "a weight of type {}", dtype);
  }
}

}  // namespace

const StoredTensor* Weights::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &StoredTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

std::vector<std::byte> Weights::read_blocks(const StoredTensor& tensor, const Shard&,
                                            const checkpoint::AtWork&) const {
  MEGA_CHECK(false, "{}: {} is not in blocks", where(), tensor.name);
}

bool is_weight_type(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::unique_ptr<Weights> checkpoint_weights(std::shared_ptr<const checkpoint::Reader> reader,
                                            const models::ModelSpec& spec, int tensor_shards) {
  return std::make_unique<CheckpointWeights>(std::move(reader), spec, tensor_shards);
}

bool has_own_head(const std::string& folder, const models::ModelSpec& spec,
                  const checkpoint::AtWork& at_work) {
  const models::ForeignTable& table = models::family_named(spec.family, folder).tensors;
  const checkpoint::SafetensorsFolder files(folder);
  const auto find = [&](std::string_view name) -> const Location* {
    for (const std::string& each : models::file_names(table, std::string(name)))
      if (const Location* const found = files.find(each)) return found;
    return nullptr;
  };
  const Location* const head = find(models::head_name(table));
  const auto row = std::ranges::find(table.rows, "embedding.weight", &models::ForeignRow::ours);
  const Location* const embedding = find(row->pieces[0].name);
  return head != nullptr && (embedding == nullptr || !are_same(*head, *embedding, at_work));
}

std::unique_ptr<Weights> hugging_face_weights(const std::string& folder,
                                              const models::ModelSpec& spec, int tensor_shards,
                                              const checkpoint::AtWork& at_work) {
  return std::make_unique<HuggingFaceWeights>(folder, spec, tensor_shards, at_work);
}

std::vector<std::byte> part_of(std::vector<std::byte> whole, const Shape& shape, const Shard& shard,
                               DType dtype) {
  if (shard.is_whole(shape)) return whole;
  const int64_t size = bytes_of(dtype);
  std::vector<std::byte> part(static_cast<size_t>(shard.local_shape(shape).num_elements() * size));
  shard.for_each_run(shape, [&](int64_t from, int64_t to, int64_t count) {
    std::memcpy(part.data() + to * size, whole.data() + from * size,
                static_cast<size_t>(count * size));
  });
  return part;
}

std::vector<std::byte> convert_elements(const std::string& name, std::vector<std::byte> elements,
                                        DType from, DType to) {
  if (from == to) return elements;
  const int64_t from_bytes = bytes_of(from), to_bytes = bytes_of(to);
  const int64_t count = static_cast<int64_t>(elements.size()) / from_bytes;
  std::vector<std::byte> converted(static_cast<size_t>(count * to_bytes));
  for (int64_t i = 0; i < count; ++i) {
    const float value = element_as_f32(elements.data() + i * from_bytes, from);
    std::byte* const at = converted.data() + i * to_bytes;
    store_element(at, to, value);
    if (std::isfinite(value) && !std::isfinite(element_as_f32(at, to))) {
      throw UserError("tensor {} holds {}, too large for {}; choose bf16 or f32", name, value, to);
    }
  }
  return converted;
}

}  // namespace megalith::store

// SPDX-License-Identifier: Apache-2.0
// The weights of a Hugging Face folder: foreign tensors, some of them in FP8, as pieces of ours.
#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/safetensors_folder.h"
#include "families/families.h"
#include "models/foreign_map.h"
#include "store/fp8_tensors.h"
#include "store/stored_weights.h"
#include "tensor/blocks.h"

namespace megalith::store {
namespace {

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
                     const models::Fp8Config& fp8, const checkpoint::AtWork& at_work)
      : folder_name_(folder),
        folder_(folder),
        table_(models::family_named(spec.family, folder).tensors) {
    for (models::TensorMap& map : models::tensor_maps(spec, table_, tensor_shards)) {
      for (models::RowMove& move : map.moves) {
        move.name = stored_name(move.name);
        check(move);
        used_.insert(move.name);
        if (is_fp8(move)) take_scales(move.name, fp8, at_work);
      }
      tensors_.push_back({map.name, map.shape, common_type(map), common_blocks(map)});
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
        theirs = values_of(move, tensor.dtype, at_work);
        last = move.name;
      }
      models::to_ours(map, move, each, theirs.data(), ours.data());
    }
    return part_of(std::move(ours), tensor.shape, part, tensor.dtype);
  }
  std::vector<std::byte> read_blocks(const StoredTensor& tensor, const Shard& part,
                                     const checkpoint::AtWork& at_work) const override {
    const models::TensorMap& map = maps_.at(tensor.name);
    models::TensorMap of_rows = map;  // of scales
    of_rows.shape = Shape{map.shape[0]};
    std::vector<std::byte> matrix(
        static_cast<size_t>(matrix_bytes(Format::fp8, map.shape[0], map.shape[1])));
    std::byte* const scales = matrix.data() + map.shape.num_elements();
    std::vector<std::byte> codes;
    std::vector<float> factors;
    for (const models::RowMove& move : map.moves) {
      const Fp8Scales& theirs = scales_.at(move.name);
      codes = stored_bytes(*folder_.find(move.name), at_work);
      factors.clear();
      for (int64_t row = 0; row < move.shape[0]; ++row) factors.push_back(theirs.of(row, 0));
      models::to_ours(map, move, 1, codes.data(), matrix.data());
      models::to_ours(of_rows, move, sizeof(float), factors.data(), scales);
    }
    return part_of_fp8(std::move(matrix), map.shape, part);
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
    if (!location.entry->dtype || !(is_weight_type(*location.entry->dtype) || is_fp8(move))) {
      throw IntegrityError(
          "{}: tensor {} is not of a floating type (F64, F32, F16, BF16 or F8_E4M3)", file,
          move.name);
    }
  }

  bool is_fp8(const models::RowMove& move) const {
    return folder_.find(move.name)->entry->dtype == DType::f8_e4m3;
  }
  /// Once for each tensor. What inputs were scaled with is no part of the weights, and inputs are
  /// multiplied as they are.
  void take_scales(const std::string& name, const models::Fp8Config& fp8,
                   const checkpoint::AtWork& at_work) {
    if (scales_.contains(name)) return;
    Fp8Scales scales = read_fp8_scales(folder_, name, fp8, at_work);
    used_.insert(scales.name);
    used_.insert(name.substr(0, name.rfind('.') + 1) + "input_scale");
    scales_.emplace(name, std::move(scales));
  }

  /// The foreign tensor's elements as this type.
  std::vector<std::byte> values_of(const models::RowMove& move, DType dtype,
                                   const checkpoint::AtWork& at_work) const {
    const Location& location = *folder_.find(move.name);
    std::vector<std::byte> stored = stored_bytes(location, at_work);
    if (!is_fp8(move))
      return convert_elements(move.name, std::move(stored), *location.entry->dtype, dtype);
    return convert_elements(move.name, widen_fp8(stored, move.shape[1], scales_.at(move.name)),
                            DType::f32, dtype);
  }

  /// Where all pieces are in FP8 with scales of rows.
  std::optional<Format> common_blocks(const models::TensorMap& map) const {
    const bool is_matrix = map.shape.num_dims() == 2 && map.shape[1] % kBlockColumns == 0;
    const bool is_common = std::ranges::all_of(map.moves, [&](const models::RowMove& move) {
      const auto found = scales_.find(move.name);
      return found != scales_.end() && found->second.are_of_rows() && !move.transposed;
    });
    return is_matrix && is_common ? std::optional(Format::fp8) : std::nullopt;
  }

  /// That of its pieces; f32 when they differ (f64 if one is).
  DType common_type(const models::TensorMap& map) const {
    const auto type_of = [&](const models::RowMove& move) {
      return is_fp8(move) ? DType::f32 : *folder_.find(move.name)->entry->dtype;
    };
    DType common = type_of(map.moves.front());
    for (const models::RowMove& move : map.moves) {
      const DType dtype = type_of(move);
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
  std::map<std::string, Fp8Scales> scales_;        // of theirs in FP8
  std::set<std::string> used_;                     // theirs
};

}  // namespace

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
                                              const models::Fp8Config& fp8,
                                              const checkpoint::AtWork& at_work) {
  return std::make_unique<HuggingFaceWeights>(folder, spec, tensor_shards, fp8, at_work);
}

}  // namespace megalith::store

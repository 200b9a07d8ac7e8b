// SPDX-License-Identifier: Apache-2.0
#include "generate/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors_folder.h"
#include "models/gpt2_names.h"

namespace megalith::generate {
namespace {

using models::Gpt2Tensor;

bool is_weight_type(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

/// Name and shape of every parameter; what each family's layers declare.
std::vector<std::pair<std::string, Shape>> parameters_of(const models::Architecture& a) {
  std::vector<std::pair<std::string, Shape>> list;
  const int64_t fused = (a.heads + 2 * a.kv_heads) * a.head_size();
  const auto linear = [&](const std::string& name, int64_t out, int64_t in) {
    list.emplace_back(name + ".weight", Shape{out, in});
    list.emplace_back(name + ".bias", Shape{out});
  };
  const auto norm = [&](const std::string& name) {
    list.emplace_back(name + ".weight", Shape{a.hidden});
    list.emplace_back(name + ".bias", Shape{a.hidden});
  };
  list.emplace_back("embedding.weight", Shape{a.padded_vocab(), a.hidden});
  list.emplace_back("position.weight", Shape{a.context, a.hidden});
  for (int64_t i = 0; i < a.layers; ++i) {
    const std::string block = fmt::format("layers.{}.", i);
    norm(block + "norm_1");
    linear(block + "attention.qkv", fused, a.hidden);
    linear(block + "attention.output", a.hidden, a.hidden);
    norm(block + "norm_2");
    linear(block + "mlp.up", a.ffn, a.hidden);
    linear(block + "mlp.down", a.hidden, a.ffn);
  }
  norm("final_norm");
  if (!a.tied) list.emplace_back("head.weight", Shape{a.padded_vocab(), a.hidden});
  return list;
}

class CheckpointWeights : public Weights {
 public:
  CheckpointWeights(std::shared_ptr<const checkpoint::Reader> reader,
                    const models::Architecture& architecture)
      : reader_(std::move(reader)) {
    for (const auto& [name, shape] : parameters_of(architecture)) {
      const checkpoint::TensorInfo* info = reader_->find(name);
      if (info == nullptr) throw IntegrityError("{}: tensor {} is missing", where(), name);
      if (info->shape != shape || !is_weight_type(info->dtype)) {
        throw IntegrityError("{}: tensor {} is {} {}, the model needs {}", where(), name,
                             info->dtype, info->shape, shape);
      }
      tensors_.push_back({name, shape, info->dtype});
    }
  }
  std::vector<std::byte> read(const StoredTensor& tensor) const override {
    const int64_t bytes = tensor.shape.num_elements() * bytes_of(tensor.dtype);
    std::vector<std::byte> host(static_cast<size_t>(bytes));
    reader_->read(tensor.name, Shard::whole(tensor.shape), host.data());
    return host;
  }
  std::string where() const override { return reader_->folder().string(); }

 private:
  std::shared_ptr<const checkpoint::Reader> reader_;
};

class Gpt2Weights : public Weights {
 public:
  Gpt2Weights(const std::string& folder, const models::Architecture& architecture)
      : folder_name_(folder), folder_(folder) {
    const bool prefixed = folder_.find("transformer.wte.weight") != nullptr;
    size_t used = 0;
    for (Gpt2Tensor& tensor : models::gpt2_tensors(architecture)) {
      std::string& name = tensor.foreign_name;
      if (!prefixed && name.starts_with(models::kGpt2Prefix)) {
        name.erase(0, models::kGpt2Prefix.size());
      }
      const Location* location = folder_.find(name);
      if (location == nullptr) throw IntegrityError("{}: tensor {} is missing", folder, name);
      check(tensor, *location);
      tensors_.push_back({tensor.name, tensor.shape, *location->entry->dtype});
      foreign_[tensor.name] = std::move(tensor);
      ++used;
    }
    check_rest(prefixed, architecture);
  }
  std::vector<std::byte> read(const StoredTensor& tensor) const override {
    const Gpt2Tensor& foreign = foreign_.at(tensor.name);
    const std::vector<std::byte> theirs = read_foreign(foreign.foreign_name);
    const int64_t each = bytes_of(tensor.dtype);
    std::vector<std::byte> ours(static_cast<size_t>(tensor.shape.num_elements() * each));
    models::gpt2_to_ours(foreign, each, theirs.data(), ours.data());
    return ours;
  }
  std::string where() const override { return folder_name_; }

 private:
  using Location = checkpoint::SafetensorsFolder::Location;

  static void check(const Gpt2Tensor& tensor, const Location& location) {
    const std::string file = location.file->path().string();
    if (location.entry->shape != tensor.foreign_shape) {
      throw IntegrityError("{}: tensor {} is {}, config.json makes it {}", file,
                           tensor.foreign_name, location.entry->shape, tensor.foreign_shape);
    }
    if (!location.entry->dtype || !is_weight_type(*location.entry->dtype)) {
      throw IntegrityError("{}: tensor {} is not of a floating type (F64, F32, F16 or BF16)", file,
                           tensor.foreign_name);
    }
  }

  /// Everything else must be a known buffer, or the copy of a tied head.
  void check_rest(bool prefixed, const models::Architecture& architecture) const {
    std::map<std::string, bool> used;
    for (const auto& [name, tensor] : foreign_) used[tensor.foreign_name] = true;
    for (const auto& [name, location] : folder_.tensors()) {
      if (used.contains(name) || models::is_gpt2_buffer(name)) continue;
      if (name == "lm_head.weight" && architecture.tied) {
        check_same_as_embedding(prefixed);
        continue;
      }
      throw IntegrityError("{}: tensor {} is no part of the model that config.json describes",
                           location.file->path().string(), name);
    }
  }

  void check_same_as_embedding(bool prefixed) const {
    const std::string embedding = prefixed ? "transformer.wte.weight" : "wte.weight";
    const Location* const head = folder_.find("lm_head.weight");
    const Location* const other = folder_.find(embedding);
    if (head->entry->shape != other->entry->shape || head->entry->dtype != other->entry->dtype ||
        read_foreign("lm_head.weight") != read_foreign(embedding)) {
      throw IntegrityError(
          "{}: tensor lm_head.weight differs from {}, but config.json says they are tied "
          "(tie_word_embeddings); set it to false or remove the tensor",
          head->file->path().string(), embedding);
    }
  }

  std::vector<std::byte> read_foreign(const std::string& name) const {
    const Location* location = folder_.find(name);
    std::vector<std::byte> bytes(static_cast<size_t>(location->entry->bytes));
    location->file->read(*location->entry, 0, location->entry->bytes, bytes.data());
    return bytes;
  }

  std::string folder_name_;
  checkpoint::SafetensorsFolder folder_;
  std::map<std::string, Gpt2Tensor> foreign_;  // by our name
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

std::unique_ptr<Weights> checkpoint_weights(std::shared_ptr<const checkpoint::Reader> reader,
                                            const models::Architecture& architecture) {
  return std::make_unique<CheckpointWeights>(std::move(reader), architecture);
}

std::unique_ptr<Weights> gpt2_weights(const std::string& folder,
                                      const models::Architecture& architecture) {
  return std::make_unique<Gpt2Weights>(folder, architecture);
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

}  // namespace megalith::generate

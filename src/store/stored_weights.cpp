// SPDX-License-Identifier: Apache-2.0
#include "store/stored_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/reader.h"
#include "models/foreign_map.h"

namespace megalith::store {
namespace {

class CheckpointWeights : public Weights {
 public:
  CheckpointWeights(std::shared_ptr<const checkpoint::Reader> reader, const models::ModelSpec& spec,
                    int tensor_shards)
      : reader_(std::move(reader)) {
    for (const models::DeclaredTensor& tensor : models::declared_tensors(spec, tensor_shards)) {
      const checkpoint::TensorInfo* info = reader_->find(tensor.name);
      if (info == nullptr) throw IntegrityError("{}: tensor {} is missing", where(), tensor.name);
      if (info->shape != tensor.shape || !is_weight_type(info->dtype)) {
        throw IntegrityError("{}: tensor {} is {} {}, the model needs {}", where(), tensor.name,
                             info->dtype, info->shape, tensor.shape);
      }
      tensors_.push_back({tensor.name, tensor.shape, info->dtype});
    }
    read_trained_scales();
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
  const TrainedScales* trained_scales() const override { return trained_ ? &*trained_ : nullptr; }

 private:
  /// Of a run whose products were in 8 bits (`fp8_products` of its state); values where scales are
  /// of tensors that are known before a step.
  void read_trained_scales() {
    constexpr char kProducts[] = "fp8_products", kScales[] = "fp8.weight.scale";
    const auto products = reader_->state().find(kProducts);
    if (products == reader_->state().end() || products->empty()) return;
    const std::string fault = fmt::format("{}: its state has no usable {}", where(), kProducts);
    if (!products->is_array()) throw IntegrityError("{}", fault);
    trained_.emplace();
    const checkpoint::TensorInfo* info = reader_->find(kScales);
    std::vector<float> scales(products->size());
    if (info != nullptr) {
      if (info->dtype != DType::f32 || info->shape != Shape{std::ssize(scales)})
        throw IntegrityError("{}: tensor {} is {} {}, of {} products", where(), kScales,
                             info->dtype, info->shape, scales.size());
      reader_->read(kScales, Shard::whole(info->shape), scales.data());
    }
    for (size_t i = 0; i < scales.size(); ++i) {
      const nlohmann::json& name = (*products)[i];
      if (!name.is_string() || find(name.get<std::string>()) == nullptr)
        throw IntegrityError("{}", fault);
      // Of a denormal one the inverse may be infinite.
      if (info != nullptr && (!(scales[i] > 0) || !std::isnormal(scales[i])))
        throw IntegrityError("{}: tensor {} holds {}, and a scale is a positive number", where(),
                             kScales, scales[i]);
      trained_->emplace(name.get<std::string>(),
                        info != nullptr ? std::optional(scales[i]) : std::nullopt);
    }
  }

  std::shared_ptr<const checkpoint::Reader> reader_;
  std::optional<TrainedScales> trained_;
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

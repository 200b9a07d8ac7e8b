// SPDX-License-Identifier: Apache-2.0
// How a model's weights come into its parameters: in which format each is held, and its numbers.
#include "models/foreign_map.h"
#include "store/fp8_tensors.h"
#include "store/model_source.h"
#include "store/quantization.h"

namespace megalith::store {

parameters::StorageFormats ModelSource::storage_formats(std::optional<Format> quantize) const {
  parameters::StorageFormats formats;
  if (quantize) {
    formats = formats_in_blocks(spec_, tensor_shards_, *quantize);
    const Weights::TrainedScales* trained = weights_->trained_scales();
    if (quantize == Format::fp8 && trained != nullptr)
      std::erase_if(formats, [&](const auto& format) { return !trained->contains(format.first); });
    return formats;
  }
  for (const models::DeclaredTensor& tensor : models::declared_tensors(spec_, tensor_shards_)) {
    const std::optional<Format> format = weights_->find(tensor.name)->blocks;
    const bool is_held =
        format == Format::fp8 ? may_be_in_fp8(tensor, tensor_shards_) : tensor.may_be_in_blocks;
    if (format && is_held) formats.emplace(tensor.name, *format);
  }
  return formats;
}

/// The rows of a parameter in blocks: those of the file where it has them so.
std::vector<std::byte> ModelSource::blocks_of(const StoredTensor& stored,
                                              const parameters::Parameter& parameter,
                                              const checkpoint::AtWork& at_work) const {
  const Shard& part = parameter.declaration().shard;
  if (stored.blocks == parameter.format()) return weights_->read_blocks(stored, part, at_work);
  if (parameter.format() == Format::fp8)
    return part_of_fp8(fp8_of(stored, at_work), stored.shape, part);
  const std::vector<std::byte> values = convert_elements(
      stored.name, weights_->read(stored, part, at_work), stored.dtype, DType::f32);
  const std::span numbers(reinterpret_cast<const float*>(values.data()),
                          values.size() / sizeof(float));
  auto blocks = to_blocks(parameter.format(), numbers, parameter.local_shape()[1]);
  if (!blocks) {
    throw UserError(
        "{}: tensor {} holds a value that {} cannot hold; leave the weights as they are stored",
        weights_->where(), stored.name, parameter.format());
  }
  return std::move(*blocks);
}

/// Scales are those of whole rows, whatever part of them a rank has.
std::vector<std::byte> ModelSource::fp8_of(const StoredTensor& stored,
                                           const checkpoint::AtWork& at_work) const {
  if (stored.blocks == Format::fp8)
    return weights_->read_blocks(stored, Shard::whole(stored.shape), at_work);
  std::optional<float> trained;
  if (const Weights::TrainedScales* scales = weights_->trained_scales()) {
    const auto found = scales->find(stored.name);
    if (found != scales->end()) trained = found->second;
  }
  const std::vector<std::byte> values =
      convert_elements(stored.name, weights_->read(stored, Shard::whole(stored.shape), at_work),
                       stored.dtype, DType::f32);
  auto matrix =
      to_fp8({reinterpret_cast<const float*>(values.data()), values.size() / sizeof(float)},
             stored.shape[1], trained);
  if (!matrix) {
    throw UserError("{}: tensor {} holds a value that is not finite, which fp8 cannot hold",
                    weights_->where(), stored.name);
  }
  return std::move(*matrix);
}

void ModelSource::fill(parameters::ParameterSet& set, device::Device& device,
                       const checkpoint::AtWork& at_work,
                       const std::function<bool(std::string_view)>& others) const {
  for (parameters::Parameter& parameter : set.all()) {
    if (others && others(parameter.name())) continue;
    const StoredTensor* stored = weights_->find(parameter.name());
    if (stored == nullptr || stored->shape != parameter.shape()) {
      throw IntegrityError("{}: tensor {} {} is not among its weights", weights_->where(),
                           parameter.name(), parameter.shape());
    }
    if (!is_plain(parameter.format())) {
      set.load_blocks(device, parameter, blocks_of(*stored, parameter, at_work));
      if (at_work) at_work();
      continue;
    }
    const DType master = set.storage().master;
    std::vector<std::byte> host = weights_->read(*stored, parameter.declaration().shard, at_work);
    if (at_work) at_work();
    host = convert_elements(parameter.name(), std::move(host), stored->dtype, master);
    set.load(device, parameter, master, host.data());
  }
}

}  // namespace megalith::store

// SPDX-License-Identifier: Apache-2.0
// Bottleneck adapters against the model that they are for.
#include <algorithm>
#include <set>

#include "store/adapter_source.h"

namespace megalith::store {
namespace {

/// The largest size that is read.
constexpr int64_t kMostSize = adapters::kMostRank;

void require_decoder(const models::ModelSpec& spec, const std::string& where) {
  if (spec.is_causal() && !spec.is_encoder_decoder()) return;
  throw UserError(
      "{}: bottleneck adapters are for decoder-only models, and model.family {} is not one", where,
      spec.family);
}

}  // namespace

void AdapterSource::place_bottlenecks(const adapters::Bottlenecks& bottlenecks,
                                      const std::vector<models::TensorMap>& maps,
                                      const ModelSource& base) {
  require_decoder(base.spec(), file_->path().parent_path().string());
  std::set<std::string, std::less<>> known;
  int64_t size = 0;
  for (const models::TensorMap& map : maps) {
    if (!map.is_cut_by_columns) continue;
    const bool of_attention = map.name.find(".attention.") != std::string::npos;
    const auto names =
        adapters::bottleneck_tensors(map.moves.at(0).name, of_attention, bottlenecks.name);
    if (const auto* const first = file_->find(names[0]); size == 0 && first != nullptr)
      size = first->shape.num_dims() == 2 ? std::min(first->shape[0], kMostSize) : 0;
    size = std::max<int64_t>(size, 1);
    const int64_t hidden = map.shape[0];
    const Shape shapes[] = {Shape{size, hidden}, Shape{size}, Shape{hidden, size}, Shape{hidden}};
    auto& entries = bottlenecks_[map.name];
    for (size_t i = 0; i < names.size(); ++i) {
      entries[i] = tensor(names[i], shapes[i]);
      known.insert(names[i]);
      parameters_ += shapes[i].num_elements();
    }
    ranks_.emplace(map.name, layers::AdapterRank::of_bottleneck(size));
  }
  for (const checkpoint::SafetensorsEntry& entry : file_->entries()) {
    if (!known.contains(entry.name)) {
      throw IntegrityError("{}: tensor {} is no part of an adapter called {} for {}",
                           file_->path().string(), entry.name, bottlenecks.name,
                           base.weights().where());
    }
  }
}

void AdapterSource::fill_bottleneck(layers::Adapter::Factors& factors, const std::string& weight,
                                    device::Device& device) const {
  const View views[] = {factors.down_RH, factors.down_bias_R, factors.up_HR, factors.up_bias_H};
  const auto& entries = bottlenecks_.at(weight);
  for (size_t i = 0; i < entries.size(); ++i)
    device.wait(device.copy_to_device(views[i], read(*entries[i]).data()));
}

}  // namespace megalith::store

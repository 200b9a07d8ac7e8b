// SPDX-License-Identifier: Apache-2.0
#include "account/rank_classes.h"

#include <algorithm>

#include "heads/vocabulary_head.h"
#include "parameters/ownership.h"

namespace megalith::account {

namespace {

/// Of each parameter of the layer, those beside its products included: whether it trains, its
/// elements, and its format where that is declared.
std::vector<int64_t> parameters_of(const engine::Settings& settings, int64_t layer) {
  if (settings.frozen.empty() && settings.formats.empty() && !settings.factors) return {};
  parameters::ParameterSet set(settings.declaration_rule());
  const models::Decoder declarations(settings.model, set, {layer, layer + 1, false, false},
                                     engine::partition_of(settings, 0));
  std::vector<int64_t> roles;
  for (const parameters::Parameter& parameter : set.all()) {
    const std::optional<Format>& format = parameter.declaration().format;
    roles.push_back(parameter.trainable() ? 1 : 0);
    roles.push_back(parameter.local_elements());
    roles.push_back(format ? static_cast<int>(*format) : -1);
  }
  return roles;
}

}  // namespace

std::vector<int64_t> layer_kinds(const engine::Settings& settings) {
  // With the roles of each one's parameters, and whether its products are in 8 bits.
  std::vector<std::pair<const layers::LayerSpec*, std::vector<int64_t>>> known;
  std::vector<int64_t> kinds;
  for (const layers::LayerSpec& layer : settings.model.layers) {
    std::vector<int64_t> roles = parameters_of(settings, std::ssize(kinds));
    roles.push_back(settings.is_fp8(std::ssize(kinds)) ? 1 : 0);
    const auto found = std::ranges::find_if(
        known, [&](const auto& k) { return *k.first == layer && k.second == roles; });
    kinds.push_back(found - known.begin());
    if (found == known.end()) known.emplace_back(&layer, std::move(roles));
  }
  return kinds;
}

void append_layers(const engine::Settings& settings, const std::vector<int64_t>& kinds,
                   const models::Stage& stage, ClassKey& key) {
  const int64_t encoder = settings.model.encoder_layers;
  key.push_back(stage.end - stage.begin);
  key.push_back(stage.begin < encoder && encoder <= stage.end ? 1 : 0);
  key.insert(key.end(), kinds.begin() + stage.begin, kinds.begin() + stage.end);
}

bool tensor_ranks_are_alike(const engine::Settings& s) {
  const int ranks = s.layout.tensor;
  // Of the ranks that hold a key/value head of several shards, one sums its gradient.
  const bool replicates = std::ranges::any_of(s.model.layers, [&](const layers::LayerSpec& layer) {
    return layer.attention.kv_heads < s.split.tensor_shards ||
           (layer.cross && layer.cross->kv_heads < s.split.tensor_shards);
  });
  return ranks == 1 ||
         (!replicates && s.sequence_length() % ranks == 0 && s.loss_length() % ranks == 0 &&
          s.predicted_per_sample % ranks == 0 && layers::kLossRowMultiple % ranks == 0);
}

RankClasses::RankClasses(const engine::Settings& settings, const BesideSteps& beside)
    : settings_(settings), beside_(beside), layer_kinds_(layer_kinds(settings)) {}

/// Kinds of blocks by chunk, whose weights they share, and what stands at the ends.
ClassKey RankClasses::shape_of(int stage) const {
  ClassKey shape{stage == 0 ? 1 : 0, stage == settings_.layout.pipeline - 1 ? 1 : 0};
  for (int chunk = 0; chunk < settings_.layout.chunks; ++chunk) {
    const models::Stage model_chunk = engine::chunk_at(settings_, stage, chunk);
    append_layers(settings_, layer_kinds_, model_chunk, shape);
    if (settings_.model.shares_weights()) shape.push_back(model_chunk.begin);
  }
  return shape;
}

RankClasses::Declared& RankClasses::declared_of(int stage) {
  std::unique_ptr<Declared>& declared = declared_[shape_of(stage)];
  if (declared == nullptr) {
    declared = std::make_unique<Declared>(settings_);
    for (int chunk = 0; chunk < settings_.layout.chunks; ++chunk) {
      declared->chunks.push_back(std::make_unique<models::Decoder>(
          settings_.model, declared->set, engine::chunk_at(settings_, stage, chunk),
          engine::partition_of(settings_, 0)));
    }
  }
  return *declared;
}

const parameters::Ownership& RankClasses::ownership_of(int stage) {
  Declared& declared = declared_of(stage);
  if (declared.ownership.empty()) {
    declared.ownership = parameters::owned_ranges(declared.set.all(), settings_.layout.data,
                                                  settings_.bucket_elements);
  }
  return declared.ownership;
}

const RankClasses::Writers& RankClasses::writers_of(const parallel::Coordinates& at) {
  Declared& declared = declared_of(at.pipeline);
  const auto [found, is_new] = declared.writers.try_emplace(at.tensor);
  Writers& writers = found->second;
  if (!is_new) return writers;
  writers.of_tensor = engine::state_list(declared.set, settings_, at);
  writers.bytes.resize(static_cast<size_t>(settings_.layout.data), 0);
  for (const engine::StateTensor& tensor : writers.of_tensor) {
    if (tensor.writer >= 0) writers.bytes[static_cast<size_t>(tensor.writer)] += tensor.bytes;
  }
  return writers;
}

/// Which part of the gradients it sums: what it owns, or its parts of buckets.
void RankClasses::append_parts(const parallel::Coordinates& at, ClassKey& key) {
  if (settings_.zero == 0) {
    const parameters::ParameterSet& set = declared_of(at.pipeline).set;
    const int64_t bucket = settings_.bucket_elements, all = set.gradient_begin(set.all().size());
    for (const int64_t elements : {std::min(all, bucket), all % bucket})
      key.push_back(comm::part_of(elements, at.data, settings_.layout.data).count);
    return;
  }
  for (const parameters::ElementRange& range :
       ownership_of(at.pipeline)[static_cast<size_t>(at.data)]) {
    key.push_back(range.begin);
    key.push_back(range.count);
  }
}

ClassKey RankClasses::step_key(int rank) {
  const parallel::Coordinates at = parallel::coordinates_of(settings_.layout, rank);
  ClassKey key{at.pipeline};
  append_parts(at, key);
  return key;
}

ClassKey RankClasses::memory_key(int rank) {
  const parallel::Coordinates at = parallel::coordinates_of(settings_.layout, rank);
  const int64_t samples =
      comm::part_of(beside_.validation_samples, at.data, settings_.layout.data).count;
  const bool writes_samples = !beside_.prompt_lengths.empty() && at.data == 0;
  ClassKey key = step_key(rank);
  key.push_back(std::min(samples, settings_.micro_batch));
  key.push_back(writes_samples ? 1 : 0);
  if (settings_.zero > 0 && beside_.saves) {
    for (const engine::StateTensor& tensor : writers_of(at).of_tensor)
      key.push_back(tensor.writer == at.data ? 1 : 0);
  }
  return key;
}

int64_t RankClasses::snapshot_bytes(int rank) {
  if (!beside_.snapshot) return 0;
  const parallel::Coordinates at = parallel::coordinates_of(settings_.layout, rank);
  return writers_of(at).bytes[static_cast<size_t>(at.data)];
}

ClassKey RankClasses::work_key(int rank) {
  const parallel::Coordinates at = parallel::coordinates_of(settings_.layout, rank);
  ClassKey key = shape_of(at.pipeline);
  key.push_back(at.tensor == 0 ? 1 : 0);  // counts the squares of what is whole on all
  key.push_back(tensor_ranks_are_alike(settings_) ? 0 : at.tensor);
  append_parts(at, key);
  return key;
}

}  // namespace megalith::account

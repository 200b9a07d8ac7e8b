// SPDX-License-Identifier: Apache-2.0
#include "account/rank_kinds.h"

#include <algorithm>

#include "engine/state.h"
#include "layers/loss_head.h"
#include "parameters/ownership.h"

namespace megalith::account {

models::Stage piece_at(const engine::Settings& s, int stage, int chunk) {
  return models::Stage::part(s.model, parallel::piece_of(s.layout, stage, chunk),
                             s.layout.pipeline * s.layout.chunks);
}

RankKinds::RankKinds(const engine::Settings& settings, const BesideSteps& beside)
    : settings_(settings), beside_(beside), is_uniform_(settings.model.is_uniform()) {}

/// Blocks by chunk, and what stands at the ends; which blocks, where they are not all alike.
KindKey RankKinds::shape_of(int stage) const {
  KindKey shape{stage == 0 ? 1 : 0, stage == settings_.layout.pipeline - 1 ? 1 : 0};
  for (int chunk = 0; chunk < settings_.layout.chunks; ++chunk) {
    const models::Stage piece = piece_at(settings_, stage, chunk);
    shape.push_back(piece.end - piece.begin);
    if (!is_uniform_) shape.push_back(piece.begin);
  }
  return shape;
}

RankKinds::Declared& RankKinds::declared_of(int stage) {
  std::unique_ptr<Declared>& declared = declared_[shape_of(stage)];
  if (declared == nullptr) {
    declared = std::make_unique<Declared>();
    for (int chunk = 0; chunk < settings_.layout.chunks; ++chunk) {
      declared->pieces.push_back(std::make_unique<models::Decoder>(
          settings_.model, declared->set, piece_at(settings_, stage, chunk),
          engine::partition_of(settings_, 0)));
    }
  }
  return *declared;
}

const parameters::Ownership& RankKinds::ownership_of(int stage) {
  Declared& declared = declared_of(stage);
  if (declared.ownership.empty()) {
    declared.ownership = parameters::owned_ranges(declared.set.all(), settings_.layout.data,
                                                  settings_.bucket_elements);
  }
  return declared.ownership;
}

void RankKinds::append_owned(const parallel::Coordinates& at, KindKey& key) {
  if (settings_.zero == 0) return;
  for (const parameters::ElementRange& range :
       ownership_of(at.pipeline)[static_cast<size_t>(at.data)]) {
    key.push_back(range.begin);
    key.push_back(range.count);
  }
}

KindKey RankKinds::memory_key(int rank) {
  const parallel::Coordinates at = parallel::coordinates_of(settings_.layout, rank);
  const int64_t samples =
      comm::part_of(beside_.validation_samples, at.data, settings_.layout.data).count;
  const bool writes_samples = !beside_.prompt_lengths.empty() && at.data == 0;
  KindKey key{at.pipeline, std::min(samples, settings_.micro_batch), writes_samples ? 1 : 0};
  append_owned(at, key);
  if (settings_.zero > 0 && beside_.saves) {
    for (const int writer : engine::state_writers(parameters_of(at.pipeline), settings_, at))
      key.push_back(writer == at.data ? 1 : 0);
  }
  return key;
}

int64_t RankKinds::snapshot_bytes(int rank) {
  if (!beside_.snapshot) return 0;
  const parallel::Coordinates at = parallel::coordinates_of(settings_.layout, rank);
  return engine::state_bytes(parameters_of(at.pipeline), settings_, at);
}

KindKey RankKinds::work_key(int rank) {
  const parallel::Coordinates at = parallel::coordinates_of(settings_.layout, rank);
  KindKey key = shape_of(at.pipeline);
  key.push_back(at.tensor == 0 ? 1 : 0);  // counts the squares of what is whole on all
  const int ranks = settings_.layout.tensor;
  const bool even =
      settings_.sequence_length() % ranks == 0 && layers::kLossRowMultiple % ranks == 0;
  key.push_back(even ? 0 : at.tensor);
  if (settings_.zero == 0) {  // parts of buckets
    const parameters::ParameterSet& set = parameters_of(at.pipeline);
    const int64_t bucket = settings_.bucket_elements, all = set.gradient_begin(set.all().size());
    for (const int64_t elements : {std::min(all, bucket), all % bucket})
      key.push_back(comm::part_of(elements, at.data, settings_.layout.data).count);
  }
  append_owned(at, key);
  return key;
}

int RankKinds::largest_owner(int stage) {
  int64_t most = -1;
  parallel::Coordinates at{0, stage, 0}, best = at;
  for (at.data = 0; at.data < settings_.layout.data; ++at.data) {
    int64_t owned = 0;
    for (const parameters::ElementRange& range : ownership_of(stage)[static_cast<size_t>(at.data)])
      owned += range.count;
    if (owned > most) {
      most = owned;
      best = at;
    }
  }
  return parallel::rank_of(settings_.layout, best);
}

int RankKinds::largest_collector(int stage) {
  int64_t most = -1;
  parallel::Coordinates best{0, stage, 0};
  const parameters::ParameterSet& set = parameters_of(stage);
  for (int tensor = 0; tensor < settings_.layout.tensor; ++tensor) {
    const std::vector<int64_t> collected =
        engine::collected_bytes(set, settings_, {tensor, stage, 0});
    const auto largest = std::ranges::max_element(collected);
    if (*largest > most) {
      most = *largest;
      best = {tensor, stage, static_cast<int>(largest - collected.begin())};
    }
  }
  return parallel::rank_of(settings_.layout, best);
}

}  // namespace megalith::account

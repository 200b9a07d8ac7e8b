// SPDX-License-Identifier: Apache-2.0
// Which ranks of a layout take the same memory and do the same work: a plan traces one of each
// kind. Ranks of one stage differ in what they write of a checkpoint, in what they own of spread
// optimizer state, in the validation samples that are theirs, and in the squares that are counted
// on one tensor rank alone. All of that follows from the declarations of the parameters, without a
// trace.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "account/traced_step.h"
#include "models/decoder.h"

namespace megalith::account {

/// Equal keys of two ranks: equal memory or, the other, equal work.
using KindKey = std::vector<int64_t>;

class RankKinds {
 public:
  RankKinds(const engine::Settings& settings, const BesideSteps& beside);

  /// What decides a rank's memory, but for the snapshot.
  KindKey memory_key(int rank);
  /// Of the snapshot of background saves; 0 without.
  int64_t snapshot_bytes(int rank);
  /// What decides the work of a step, and the bytes sent.
  KindKey work_key(int rank);
  /// The rank of a stage, of tensor coordinate 0, that owns most of spread state.
  int largest_owner(int stage);
  /// The rank of a stage on which most of it comes together for a save.
  int largest_collector(int stage);

 private:
  /// A stage's parameters, on paper.
  struct Declared {
    parameters::ParameterSet set;
    std::vector<std::unique_ptr<models::Decoder>> pieces;
    parameters::Ownership ownership;  // of data ranks, once asked for
  };
  Declared& declared_of(int stage);
  const parameters::ParameterSet& parameters_of(int stage) { return declared_of(stage).set; }
  const parameters::Ownership& ownership_of(int stage);
  void append_owned(const parallel::Coordinates& at, KindKey& key);
  KindKey shape_of(int stage) const;
  const engine::Settings& settings_;
  BesideSteps beside_;
  bool is_uniform_;                                        // all layers alike
  std::map<KindKey, std::unique_ptr<Declared>> declared_;  // by shape of the stage
};

/// The piece of the model that is `chunk` of a stage.
models::Stage piece_at(const engine::Settings& settings, int stage, int chunk);

}  // namespace megalith::account

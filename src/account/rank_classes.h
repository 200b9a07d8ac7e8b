// SPDX-License-Identifier: Apache-2.0
// Equivalence classes of ranks: which ranks of a layout take the same memory and do the same work.
// A plan traces one of each. Ranks of one stage differ in what they write of a checkpoint, in what
// they own of spread optimizer state, in the validation samples that are theirs, and in the squares
// that are counted on one tensor rank alone. All of that follows from the declarations of the
// parameters, without a trace.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "account/traced_step.h"
#include "engine/state.h"
#include "models/decoder.h"

namespace megalith::account {

/// Equal keys of two ranks: equal memory or, the other, equal work.
using ClassKey = std::vector<int64_t>;

/// Layers of which one stands for the others have equal numbers: [layer]. Their descriptions are
/// equal, and so are the sizes, storage formats and trainability of their parameters, those beside
/// products included.
std::vector<int64_t> layer_kinds(const engine::Settings& settings);

/// Adds what of a model chunk's layers plans depend on: how many, which kinds, and whether an
/// encoder ends among them.
void append_layers(const engine::Settings& settings, const std::vector<int64_t>& kinds,
                   const models::Stage& stage, ClassKey& key);

/// Whether ranks of the tensor axis do the same work in the passes of a micro-batch.
bool tensor_ranks_are_alike(const engine::Settings& settings);

class RankClasses {
 public:
  RankClasses(const engine::Settings& settings, const BesideSteps& beside);

  /// What decides the memory that a step takes beside what lasts.
  ClassKey step_key(int rank);
  /// What decides a rank's memory, but for the snapshot.
  ClassKey memory_key(int rank);
  /// Of the snapshot of background saves; 0 without.
  int64_t snapshot_bytes(int rank);
  /// What decides the work of a step, and the bytes sent.
  ClassKey work_key(int rank);

 private:
  /// Who writes which tensors of a checkpoint, of the data ranks beside one place.
  struct Writers {
    std::vector<engine::StateTensor> of_tensor;
    std::vector<int64_t> bytes;  // by data rank
  };
  /// A stage's parameters, on paper.
  struct Declared {
    explicit Declared(const engine::Settings& settings) : set(settings.declaration_rule()) {}
    parameters::ParameterSet set;
    std::vector<std::unique_ptr<models::Decoder>> chunks;
    parameters::Ownership ownership;  // of data ranks, once asked for
    std::map<int, Writers> writers;   // by tensor rank, once asked for
  };
  Declared& declared_of(int stage);
  const parameters::Ownership& ownership_of(int stage);
  const Writers& writers_of(const parallel::Coordinates& at);
  void append_parts(const parallel::Coordinates& at, ClassKey& key);
  ClassKey shape_of(int stage) const;
  const engine::Settings& settings_;
  BesideSteps beside_;
  std::vector<int64_t> layer_kinds_;
  std::map<ClassKey, std::unique_ptr<Declared>> declared_;  // by shape of the stage
};

}  // namespace megalith::account

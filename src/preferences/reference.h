// SPDX-License-Identifier: Apache-2.0
// The reference that answers are compared with: log-probabilities of all of them under the weights
// that a run begins with, and what trains beside these as it begins, which of factors and vectors
// changes nothing yet. They are computed once, by the engine that is to train: two models are never
// in memory. The run's folder keeps them; a start that finds them damaged, or of something else,
// makes them again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/control_messages.h"
#include "config/recipe.h"
#include "engine/engine.h"
#include "preferences/preference_source.h"

namespace megalith::tune {

/// Of both answers of each pair of the source, chosen first, in f32 as training has them: to the
/// bit what a step without dropout would find. Equal on all ranks. Nothing if `stop`, which is
/// asked before each micro-batch and answers alike on all ranks, says so. Memory of the device: as
/// of a validation. Collective over the world.
std::optional<std::vector<float>> answer_log_probabilities(engine::Engine& engine,
                                                           const PreferenceSource& source,
                                                           FunctionRef<bool()> stop);

class Reference {
 public:
  /// Of the pairs of both sources, which must outlive it (`validation` may be null), kept in
  /// `file`. `weights`: fingerprint of those that the recipe's run begins with.
  Reference(const config::Recipe& recipe, const std::string& weights,
            const PreferenceSource& training, const PreferenceSource* validation,
            std::filesystem::path file);

  /// Gives the sources what rank 0 finds in the file; false when there is nothing that fits.
  /// Collective.
  bool take_kept(comm::ControlMessages& world) const;
  /// Computes it, gives it to the sources and keeps it, durably. False as `stop` says. Collective.
  bool make(engine::Engine& engine, FunctionRef<bool()> stop) const;

 private:
  std::string kept_text() const;
  bool take(const std::string& text) const;
  std::vector<const PreferenceSource*> sources_;  // training, then validation
  std::filesystem::path file_;
  std::string key_;  // a digest of all that the values follow from
};

}  // namespace megalith::tune

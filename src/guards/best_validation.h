// SPDX-License-Identifier: Apache-2.0
// The lowest validation loss so far: which checkpoint is worth keeping, and when a run that gets no
// better may end (early stopping with patience: Goodfellow et al. 2016, algorithm 7.1). Part of the
// checkpoint, so that a resumed run decides as the whole one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace megalith::guards {

class BestValidation {
 public:
  /// Takes in the loss behind step `step`, as all ranks have it. Whether it is the lowest so far; a
  /// loss that is not finite never is.
  bool observe(int64_t step, double loss);

  /// Of the lowest loss; none before the first.
  std::optional<int64_t> step() const { return step_; }
  double loss() const { return loss_; }
  /// Validations in a row, the last among them, that did not come below it.
  int64_t no_better() const { return no_better_; }
  /// Whether these are as many as a run has patience for; 0: without end.
  bool gave_up(int64_t patience) const { return patience > 0 && no_better_ >= patience; }

  nlohmann::json to_json() const;
  /// IntegrityError when it is not what to_json gives.
  void restore(const nlohmann::json& json);

 private:
  std::optional<int64_t> step_;
  double loss_ = 0;
  int64_t no_better_ = 0;
};

}  // namespace megalith::guards

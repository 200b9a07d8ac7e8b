// SPDX-License-Identifier: Apache-2.0
// The best validation so far: which checkpoint is worth keeping, and when a run that gets no better
// may end (early stopping with patience: Goodfellow et al. 2016, algorithm 7.1). Part of the
// checkpoint, so that a resumed run decides as the whole one.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

namespace megalith::guards {

class BestValidation {
 public:
  /// By the loss, of which the lowest is best, or by the score of another name, of which the
  /// highest is.
  explicit BestValidation(std::string by = kByLoss) : by_(std::move(by)) {}

  /// Takes in that number of the validation behind step `step`, as all ranks have it. Whether it is
  /// the best so far; one that is not finite never is.
  bool observe(int64_t step, double value);

  const std::string& by() const { return by_; }
  bool is_by_loss() const { return by_ == kByLoss; }
  /// Of the best; none before the first.
  std::optional<int64_t> step() const { return step_; }
  double value() const { return value_; }
  /// Validations in a row, the last among them, that were no better.
  int64_t no_better() const { return no_better_; }
  /// Whether these are as many as a run has patience for; 0: without end.
  bool gave_up(int64_t patience) const { return patience > 0 && no_better_ >= patience; }

  nlohmann::json to_json() const;
  /// What to_json gives, by whatever number that was. IntegrityError when it is something else.
  static BestValidation from_json(const nlohmann::json& json);

 private:
  static constexpr const char* kByLoss = "loss";
  std::string by_;
  std::optional<int64_t> step_;
  double value_ = 0;
  int64_t no_better_ = 0;
};

}  // namespace megalith::guards

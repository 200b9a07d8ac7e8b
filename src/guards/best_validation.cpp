// SPDX-License-Identifier: Apache-2.0
#include "guards/best_validation.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"

namespace megalith::guards {

/// No run gets there, and what is added does not overflow.
constexpr int64_t kMostSteps = int64_t{1} << 60;

bool BestValidation::observe(int64_t step, double value) {
  const bool is_better = !step_ || (is_by_loss() ? value < value_ : value > value_);
  if (!std::isfinite(value) || !is_better) {
    ++no_better_;
    return false;
  }
  step_ = step;
  value_ = value;
  no_better_ = 0;
  return true;
}

/// Under "loss" a loss, as checkpoints had it before there were scores.
nlohmann::json BestValidation::to_json() const {
  nlohmann::json json = {{"no_better", no_better_}};
  if (!is_by_loss()) json["by"] = by_;
  if (step_) json.update({{"step", *step_}, {is_by_loss() ? "loss" : "score", value_}});
  return json;
}

BestValidation BestValidation::from_json(const nlohmann::json& json) {
  try {
    const char* const where = "checkpoint: its best validation";
    BestValidation best(json.value("by", kByLoss));
    best.no_better_ = whole_number(json, "no_better", where, kMostSteps);
    if (!json.contains("step")) return best;
    best.step_ = whole_number(json, "step", where, kMostSteps);
    best.value_ = finite_number(json, best.is_by_loss() ? "loss" : "score", where);
    return best;
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("checkpoint: its best validation cannot be read: {}", error.what());
  }
}

}  // namespace megalith::guards

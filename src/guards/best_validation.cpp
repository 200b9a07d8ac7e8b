// SPDX-License-Identifier: Apache-2.0
#include "guards/best_validation.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"

namespace megalith::guards {

/// No run gets there, and what is added does not overflow.
constexpr int64_t kMostSteps = int64_t{1} << 60;

bool BestValidation::observe(int64_t step, double loss) {
  if (!std::isfinite(loss) || (step_ && loss >= loss_)) {
    ++no_better_;
    return false;
  }
  step_ = step;
  loss_ = loss;
  no_better_ = 0;
  return true;
}

nlohmann::json BestValidation::to_json() const {
  nlohmann::json json = {{"no_better", no_better_}};
  if (step_) json.update({{"step", *step_}, {"loss", loss_}});
  return json;
}

void BestValidation::restore(const nlohmann::json& json) {
  try {
    const char* const where = "checkpoint: its best validation";
    no_better_ = whole_number(json, "no_better", where, kMostSteps);
    step_.reset();
    if (!json.contains("step")) return;
    step_ = whole_number(json, "step", where, kMostSteps);
    loss_ = finite_number(json, "loss", where);
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("checkpoint: its best validation cannot be read: {}", error.what());
  }
}

}  // namespace megalith::guards

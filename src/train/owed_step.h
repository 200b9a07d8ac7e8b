// SPDX-License-Identifier: Apache-2.0
// A signal does not wait for a validation or for text samples, and yet the resumed run's logs are
// those of a run that nobody stopped: what the last step still owes is part of the checkpoint, and
// is done before the next step. Both depend on the weights alone, so they come out the same. The
// step itself was judged before (run_guard.h): only what may go on owes anything.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "report/metrics.h"

namespace megalith::train {

struct OwedStep {
  enum class What : uint8_t {
    validation,  // and with it the step's line in the logs and its text samples
    samples,     // these alone
  };
  What what = What::validation;
  report::StepMetrics line;  // without the validation loss that is owed
};

nlohmann::json to_json(const OwedStep& owed);
/// What the state of a checkpoint of step `step` owes, under its key "owed"; nothing when it has
/// none. IntegrityError when that is none of to_json's or of another step.
std::optional<OwedStep> owed_from(const nlohmann::json& state, int64_t step);

inline std::optional<OwedStep::What> what_of(const std::optional<OwedStep>& owed) {
  return owed ? std::optional(owed->what) : std::nullopt;
}

}  // namespace megalith::train

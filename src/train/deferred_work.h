// SPDX-License-Identifier: Apache-2.0
// A signal does not wait for a validation or for text samples. What the last step still has to do
// is part of the checkpoint and is done first by the next start, so that a run that was stopped has
// the logs of one that was not. Both follow from the weights alone. The step itself has been judged
// before (run_guard.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "report/metrics.h"

namespace megalith::train {

struct DeferredWork {
  enum class What : uint8_t {
    validation,  // and with it the step's line in the logs and its text samples
    samples,     // these alone
  };
  What what = What::validation;
  report::StepMetrics line;  // without the validation loss that is owed
};

nlohmann::json to_json(const DeferredWork& owed);
/// What the state of a checkpoint of step `step` owes, under its key "owed"; nothing when it has
/// none. IntegrityError when that is none of to_json's or of another step.
std::optional<DeferredWork> deferred_from(const nlohmann::json& state, int64_t step);

inline std::optional<DeferredWork::What> what_of(const std::optional<DeferredWork>& owed) {
  return owed ? std::optional(owed->what) : std::nullopt;
}

}  // namespace megalith::train

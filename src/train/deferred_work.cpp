// SPDX-License-Identifier: Apache-2.0
#include "train/deferred_work.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace megalith::train {

nlohmann::json to_json(const DeferredWork& owed) {
  return {{"what", owed.what == DeferredWork::What::validation ? "validation" : "samples"},
          // As a line of the log: it keeps every bit, also of what is not finite.
          {"line", owed.line.to_json_line()}};
}

std::optional<DeferredWork> deferred_from(const nlohmann::json& state, int64_t step) {
  const auto found = state.find("owed");
  if (found == state.end()) return std::nullopt;
  try {
    DeferredWork owed;
    const auto what = found->at("what").get<std::string>();
    if (what != "validation" && what != "samples")
      throw IntegrityError("checkpoint: it owes '{}', which no step does", what);
    owed.what = what == "validation" ? DeferredWork::What::validation : DeferredWork::What::samples;
    owed.line = report::StepMetrics::parse(found->at("line").get<std::string>());
    if (owed.line.step != step)
      throw IntegrityError("checkpoint: at step {} it owes step {}", step, owed.line.step);
    return owed;
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("checkpoint: what it owes cannot be read: {}", error.what());
  }
}

}  // namespace megalith::train

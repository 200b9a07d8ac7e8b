// SPDX-License-Identifier: Apache-2.0
#include "train/position.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"

namespace megalith::train {

nlohmann::json to_json(const Position& p) {
  return {{"step", p.step},
          {"samples", p.samples},
          {"tokens", p.tokens},
          {"elapsed_seconds", p.elapsed_seconds},
          {"logs", to_json(p.logs)}};
}

Position position_from(const nlohmann::json& state) {
  try {
    const char* const where = "checkpoint: its state";
    const int64_t most = int64_t{1}
                         << 60;  // no run gets there, and what is added does not overflow
    return {whole_number(state, "step", where, most), whole_number(state, "samples", where, most),
            whole_number(state, "tokens", where, most),
            finite_number(state, "elapsed_seconds", where), log_positions_from(state.at("logs"))};
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("checkpoint: its state is not that of a training run: {}", error.what());
  }
}

}  // namespace megalith::train

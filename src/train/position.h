// SPDX-License-Identifier: Apache-2.0
// Where a run stands between two steps: four numbers and the lengths of its logs. Everything else
// that comes next (samples, learning rate, random numbers) follows from them and the recipe.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "train/run_log.h"

namespace megalith::train {

struct Position {
  int64_t step = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  double elapsed_seconds = 0;  // of training, over all starts
  LogPositions logs;
};

nlohmann::json to_json(const Position& position);
/// From the state of a checkpoint, which holds more. IntegrityError when that is none of to_json's.
Position position_from(const nlohmann::json& state);

}  // namespace megalith::train

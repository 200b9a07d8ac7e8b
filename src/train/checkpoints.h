// SPDX-License-Identifier: Apache-2.0
// A training state as logical tensors and numbers: what goes into a checkpoint and comes out of it.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/saver.h"
#include "train/engine.h"
#include "train/run_log.h"

namespace megalith::train {

/// Where a run stands between two steps.
struct Position {
  int64_t step = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  double elapsed_seconds = 0;  // of training, over all starts
  LogPositions logs;
};

/// UserError when a state of these settings cannot be saved: masters and moments that are spread
/// over data ranks (parallel.zero) lie in runs that the pieces of a checkpoint cannot express.
void require_saveable(const Settings& settings);

/// What this rank writes: masters under the parameters' names, moments under "adamw.m." and
/// "adamw.v." + name, each its piece. Over all ranks every tensor is covered once. Local.
std::vector<checkpoint::TensorSource> state_tensors(Engine& engine);
/// Of these.
int64_t state_bytes(Engine& engine);
/// The numbers beside them.
nlohmann::json state_json(const Position& position, const Engine& engine,
                          const std::string& data_fingerprint);
Position position_from(const nlohmann::json& state);
/// Reads every tensor of the engine; IntegrityError when one is missing or has another shape or
/// type.
void load_state(const checkpoint::Reader& reader, Engine& engine);

}  // namespace megalith::train

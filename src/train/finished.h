// SPDX-License-Identifier: Apache-2.0
// A run that is finished, started once more (by a scheduler that restarts whatever ended, or by a
// person who wants to see): answered from its files, before memory is planned or the model is made,
// so that it is the same answer on a machine that could not train it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "config/recipe.h"
#include "data/batch_source.h"
#include "engine/settings.h"
#include "report/metrics.h"
#include "text/tokenizer.h"

namespace megalith::train {

/// The last line of the logs when the newest checkpoint of the run folder is whole, at the recipe's
/// end, and owes nothing, and a start would find nothing to clean up and a whole run.json; nothing
/// when there is something to do. UserError when the recipe may not go on from that checkpoint.
/// Writes run.json only when it does not say "finished" yet (the run was killed behind its last
/// save). Whoever calls holds the lock: a run that is about to finish is not finished. `base` is
/// RunInputs'. Collective; rank 0 looks.
std::optional<report::StepMetrics> finished_before(
    comm::Communicator& world, const config::Recipe& recipe, const engine::Settings& settings,
    const data::BatchSource& source, const text::Tokenizer* tokenizer, const std::string& base,
    std::span<const std::string> allow);

}  // namespace megalith::train

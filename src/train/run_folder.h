// SPDX-License-Identifier: Apache-2.0
// What a start finds in a run folder: what a killed run was writing, and files without a
// checkpoint. It may begin anew in it only when nothing that anybody could miss would go: run.json
// says whether a checkpoint was ever complete.
#pragma once

#include <filesystem>

#include "checkpoint/reader.h"
#include "train/run_log.h"
#include "train/run_record.h"

namespace megalith::train {

/// What a run keeps of the weights that it began with (OfFirstWeights).
inline constexpr const char* kFirstValues = "reference.json";

/// Records the checkpoint that a start goes on from, with its event file: a run that was killed
/// between a save and its record knows of it from here on.
void note_checkpoint(RunRecord& record, const checkpoint::Reader& reader, const LogPositions& logs);

/// Where the logs of a start begin that found no checkpoint: anew, when none was ever complete (and
/// it is said when an earlier start was ended before that). IntegrityError when run.json records a
/// checkpoint, or when there are logs and no record of a run that wrote them. The event file's name
/// goes into the record, durably, before there is such a file: whatever else has a name of that
/// kind is another's.
LogPositions begin_logs(const std::filesystem::path& run, RunRecord& record);

/// Moves what a run wrote into old-N in its folder, with the smallest N that is free, and says so;
/// files of others stay. Nothing happens where there is nothing. A start that is cut off on the way
/// leaves a folder that begin_logs refuses.
void set_aside(const std::filesystem::path& run);

/// What a killed run was writing beside its record and recipe. (The saver does the same in its own
/// folder: checkpoint/kept_checkpoints.h.)
void remove_leftovers(const std::filesystem::path& run);
/// Whether that would remove anything.
bool has_leftovers(const std::filesystem::path& run);

}  // namespace megalith::train

// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run: a folder of step folders, of which some may be damaged.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "checkpoint/reader.h"

namespace megalith::checkpoint {

using StepFolders = std::map<int64_t, std::filesystem::path, std::greater<>>;
/// The step folders in a run's folder of checkpoints, newest first, whole or not; none if it is
/// absent. UserError if that folder is a link, since what it leads to is somebody else's.
StepFolders step_folders(const std::filesystem::path& checkpoints);
/// Opens one of them. IntegrityError also if it is a link.
Reader open_own_step(const std::filesystem::path& folder, AtWork at_work = {});

/// The newest complete checkpoint in a folder of step folders: COMMIT and manifest hold and all
/// files have their size (with `verify`: all hashes hold too, and are not computed again).
///   - Newer ones that are damaged (IntegrityError) are passed over with a warning that names them.
///   - One that cannot be read now is a SystemError, because it may well be whole.
///   - One of a newer format is a NewerFormatError, because it is whole.
///   - Nothing is returned if no folder has such a name; IntegrityError if some do and none is
///     whole. (A save gives the name last, so the folder was a checkpoint, whatever it lacks now.)
std::optional<Reader> find_newest(const std::filesystem::path& checkpoints, bool verify,
                                  const AtWork& at_work = {});

}  // namespace megalith::checkpoint

// SPDX-License-Identifier: Apache-2.0
// What stays in a run's folder of checkpoints, and what goes: the leavings of a crash at a start,
// old checkpoints after a save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/at_work.h"

namespace megalith::checkpoint {

enum class Condition : uint8_t { whole, damaged, newer };
/// Of a step folder, as far as opening it tells. Throws when that cannot be seen now: a disk that
/// does not answer is no reason to remove what it holds.
Condition condition_of(const std::filesystem::path& step);

/// Removes what no checkpoint needs: temporary files and folders of saves. Damaged checkpoints
/// stay: whoever loads must see and name them. So does what others put there. What a replacement
/// that was cut off had put aside goes back to its place.
void clean_checkpoints(const std::filesystem::path& folder);
/// Whether it would find nothing to do.
bool is_clean(const std::filesystem::path& folder);

/// Keeps the newest `keep` whole checkpoints up to `step`, which is there whole, and removes older
/// ones and damaged ones among them. Later steps are not touched and do not count: they can only be
/// damaged ones that a resume passed over, and a run that gets there again replaces them; nor are
/// those of a newer format, and folders that hold neither manifest nor COMMIT. With two places or
/// more, the newest regular one (a multiple of `regular`, if that is above 0) has one of them.
/// SystemError when one cannot be looked at now: then none goes. `at_work` is called for each that
/// is looked at or goes.
void prune_checkpoints(const std::filesystem::path& folder, int64_t step, int64_t keep,
                       int64_t regular, const AtWork& at_work = {});
/// What it would remove, newest first.
std::vector<std::filesystem::path> superfluous_checkpoints(const std::filesystem::path& folder,
                                                           int64_t step, int64_t keep,
                                                           int64_t regular,
                                                           const AtWork& at_work = {});

/// NewerFormatError when a newer program's checkpoint is at this place.
void require_replaceable(const std::filesystem::path& step);

}  // namespace megalith::checkpoint

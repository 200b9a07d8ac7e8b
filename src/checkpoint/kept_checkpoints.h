// SPDX-License-Identifier: Apache-2.0
// Which checkpoints a run's folder keeps: a start removes what a crash left, and a save removes old
// checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "checkpoint/at_work.h"
#include "checkpoint/reader.h"

namespace megalith::checkpoint {

enum class Condition : uint8_t { whole, damaged, newer };
/// The condition of a step folder, as far as opening it tells. Throws if that cannot be seen now: a
/// disk that does not answer is no reason to remove what is on it.
Condition condition_of(const std::filesystem::path& step);

/// Removes the temporary files and folders of interrupted saves, and puts back a checkpoint that an
/// interrupted replacement had moved aside. Damaged checkpoints stay, since whoever loads them must
/// see and name them. Files of others stay too.
void clean_checkpoints(const std::filesystem::path& folder);
/// True if clean_checkpoints would find nothing to do.
bool is_clean(const std::filesystem::path& folder);

/// Which whole checkpoints stay.
struct KeptCheckpoints {
  int64_t newest = 2;  // how many of the newest
  /// If above 0 (and `newest` at least 2), the newest step that is a multiple of this is among
  /// them, whatever a signal has saved since.
  int64_t regular = 0;
  /// The step that a kept checkpoint calls its best: it stays beside them, so that a run which goes
  /// back to one of them still has that. Null: none is.
  std::function<std::optional<int64_t>(const Reader& reader)> best = {};
};

/// Called once the checkpoint of `step` is whole. Keeps those of `kept` up to `step` and removes
/// older ones, and damaged ones among them.
///   - Later steps are neither removed nor counted: a resume passed over them as damaged, and the
///     run replaces them when it gets there again.
///   - Checkpoints of a newer format, and folders with neither manifest nor COMMIT, are treated
///     likewise.
/// SystemError if one of them cannot be read now; then nothing is removed. `at_work` is called for
/// each folder that is examined or removed.
void prune_checkpoints(const std::filesystem::path& folder, int64_t step,
                       const KeptCheckpoints& kept, const AtWork& at_work = {});
/// The folders that prune_checkpoints would remove, newest first.
std::vector<std::filesystem::path> superfluous_checkpoints(const std::filesystem::path& folder,
                                                           int64_t step,
                                                           const KeptCheckpoints& kept,
                                                           const AtWork& at_work = {});

/// NewerFormatError if `step` holds a checkpoint of a newer program.
void require_replaceable(const std::filesystem::path& step);

}  // namespace megalith::checkpoint

// SPDX-License-Identifier: Apache-2.0
// Whether a checkpoint will fit where it is going to be: asked before the first step, when the
// state is known and nothing is lost, and before every save. A full disk is the machine's (exit 1)
// whenever it is found. All local.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/folder_writer.h"

namespace megalith::checkpoint {

/// What a checkpoint takes at most, with its small files.
int64_t bytes_on_disk(const FolderNeeds& all);

/// The bytes free on the disk of `folder`. SystemError naming what is needed and what is free when
/// it has too few bytes or files left for one more checkpoint (`all`: what all ranks write).
int64_t check_disk(const std::filesystem::path& folder, const FolderNeeds& all);

/// SystemError when this process may not write files as large as the largest of its `own`.
void check_file_size(const std::filesystem::path& folder, const FolderNeeds& own);

/// A warning when `free` bytes are room for one more, but not for `keep` and one in progress.
void warn_of_scarce_room(const std::filesystem::path& folder, const FolderNeeds& all, int64_t keep,
                         int64_t free);

}  // namespace megalith::checkpoint

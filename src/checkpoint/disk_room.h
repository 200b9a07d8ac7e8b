// SPDX-License-Identifier: Apache-2.0
// Whether a checkpoint will fit on its disk: asked before the first step, when the size of the
// state is known and nothing can be lost yet, and before every save. A full disk is a failure of
// the machine (exit 1) whenever it is found. All local.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/folder_writer.h"

namespace megalith::checkpoint {

/// The most bytes that a checkpoint takes, with its small files.
int64_t bytes_on_disk(const FolderNeeds& all);

/// The bytes free on the disk of `folder`. SystemError naming the bytes needed and free if it lacks
/// the bytes or files for one more checkpoint (`all`: what all ranks write together).
int64_t check_disk(const std::filesystem::path& folder, const FolderNeeds& all);

/// SystemError if this process may not write files as large as its largest one (`own`).
void check_file_size(const std::filesystem::path& folder, const FolderNeeds& own);

/// Warns if `free` bytes suffice for one more checkpoint, but not for `keep` and one in progress.
void warn_of_scarce_room(const std::filesystem::path& folder, const FolderNeeds& all, int64_t keep,
                         int64_t free);

}  // namespace megalith::checkpoint

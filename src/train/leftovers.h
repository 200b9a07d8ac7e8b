// SPDX-License-Identifier: Apache-2.0
// What a killed run was writing beside its record and recipe. (The saver does the same in its own
// folder: checkpoint/kept_checkpoints.h.)
#pragma once

#include <filesystem>

namespace megalith::train {

void remove_leftovers(const std::filesystem::path& run);
/// Whether that would remove anything.
bool has_leftovers(const std::filesystem::path& run);

}  // namespace megalith::train

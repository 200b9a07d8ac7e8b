// SPDX-License-Identifier: Apache-2.0
// Files of a checkpoint's own folder: no link is followed, since it could lead anywhere. What a
// disk or a permission keeps from being seen is not damage (SystemError); what is not there is
// (IntegrityError).
#pragma once

#include <filesystem>
#include <string>

#include "base/file.h"

namespace megalith::checkpoint {

/// What lies at a path, which may be nothing.
std::filesystem::file_type kind_of(const std::filesystem::path& path);
/// Opens a regular file to read it.
File open_own(const std::filesystem::path& path);
/// All of one that has at most `limit` bytes.
std::string read_own(const std::filesystem::path& path, int64_t limit);

}  // namespace megalith::checkpoint

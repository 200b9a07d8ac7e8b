// SPDX-License-Identifier: Apache-2.0
// Folders that the program makes, and what it reads inside of folders. New folders are there after
// a power cut, and nobody but their owner may write into them, whatever the umask.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace megalith {

/// Makes `folder` and the folders above it that are missing, with mode 0755 (less what the umask
/// takes); each new entry is durable on return (fsync of the folder that holds it). Gives those
/// that were made, the innermost first; none when it was there. UserError naming `folder` when the
/// path cannot be one, SystemError when the disk or the machine refuses.
std::vector<std::filesystem::path> make_folders(const std::filesystem::path& folder);

/// Before a file that lies in a folder is opened by its usual name: IntegrityError when it is there
/// and is neither a regular file nor a link to one. A pipe would be waited for without end, and a
/// device has none. (Who names a pipe himself, as an input, means it.)
void require_regular(const std::filesystem::path& file);

/// The whole of such a file. IntegrityError also when it has more than `limit` bytes: what belongs
/// there has not.
std::string read_regular(const std::filesystem::path& file, int64_t limit);

}  // namespace megalith

// SPDX-License-Identifier: Apache-2.0
// Folders that the program makes, and files that it reads from folders. A new folder survives a
// power cut, and only its owner may write into it, whatever the umask.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace megalith {

/// Makes `folder` and its missing parents with mode 0755 (less the umask). Each new entry is
/// durable on return (fsync of the folder that holds it). Returns the folders made, innermost
/// first; none if it existed. UserError naming `folder` if the path cannot be a folder, SystemError
/// if the disk or the machine refuses.
std::vector<std::filesystem::path> make_folders(const std::filesystem::path& folder);

/// Call before opening a file that a folder is expected to hold: IntegrityError if the name exists
/// but is neither a regular file nor a link to one. (Reading a pipe would wait for ever and a
/// device may have no end. An input that the user names may be a pipe.)
void require_regular(const std::filesystem::path& file);

/// The content of such a file. IntegrityError also if it is longer than `limit` bytes, more than
/// any genuine one has.
std::string read_regular(const std::filesystem::path& file, int64_t limit);

}  // namespace megalith

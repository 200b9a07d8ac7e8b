// SPDX-License-Identifier: Apache-2.0
// What a corpus is known by: a digest of every byte of both files, so that no change of it, not of
// one token, passes for the corpus that a run began with. It is worked out while packing, or once
// at the first use, and kept in PREFIX.fingerprint with the sizes and times of the files it is of.
//
//   megalith fingerprint 1
//   idx BYTES SECONDS.NANOSECONDS
//   bin BYTES SECONDS.NANOSECONDS
//   all-DIGEST
//
// The times are those of the last change. Lines that are not those of the files as they are now are
// as good as none: the bytes decide.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace megalith::data {

/// Called between pieces of work on a whole corpus, so that ranks that wait hear of it.
using AtWork = std::function<void()>;

/// Of the digests of .idx and .bin.
std::string fingerprint_of(const std::string& idx_digest, const std::string& bin_digest);
/// Whether a recorded text is of that kind. (Earlier versions looked at the ends of the files.)
bool is_of_all_bytes(std::string_view fingerprint);

/// The sizes and times of two open files.
std::string stamp_of(const File& idx, const File& bin);
/// PREFIX.fingerprint.
std::filesystem::path fingerprint_path(const std::filesystem::path& prefix);
/// What is kept for files with this stamp.
std::optional<std::string> kept_fingerprint(const std::filesystem::path& prefix,
                                            std::string_view stamp);
/// Keeps it, or says at level debug why it cannot be: the next use works it out again.
void keep_fingerprint(const std::filesystem::path& prefix, std::string_view stamp,
                      std::string_view fingerprint);

/// FileHash's digest of a whole file.
std::string digest_of(const File& file, const AtWork& at_work);

}  // namespace megalith::data

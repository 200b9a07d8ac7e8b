// SPDX-License-Identifier: Apache-2.0
// The identity of a corpus: a digest of every byte of both files, so that no change, not even of
// one token, passes for the corpus that a run began with. It is computed while packing, or once at
// the first use, and kept in PREFIX.fingerprint together with the sizes and times of the files:
//
//   megalith fingerprint 1
//   idx BYTES SECONDS.NANOSECONDS
//   bin BYTES SECONDS.NANOSECONDS
//   all-DIGEST
//
// The times are those of the last modification. If sizes or times no longer match the files, the
// record is ignored and the digest is computed again.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace megalith::data {

/// Called between pieces of work on a whole corpus, so that waiting ranks know it goes on.
using AtWork = std::function<void()>;

/// The fingerprint from the digests of .idx and .bin.
std::string fingerprint_of(const std::string& idx_digest, const std::string& bin_digest);
/// True for a fingerprint over all bytes. (Earlier versions looked at the ends of the files only.)
bool is_of_all_bytes(std::string_view fingerprint);

/// The sizes and times of two open files.
std::string stamp_of(const File& idx, const File& bin);
/// PREFIX.fingerprint.
std::filesystem::path fingerprint_path(const std::filesystem::path& prefix);
/// The recorded fingerprint, if the record is of files with this stamp.
std::optional<std::string> kept_fingerprint(const std::filesystem::path& prefix,
                                            std::string_view stamp);
/// Records it. If that fails, says why at level debug; the next use computes it again.
void keep_fingerprint(const std::filesystem::path& prefix, std::string_view stamp,
                      std::string_view fingerprint);

/// The digest of a whole file, as FileHash gives it.
std::string digest_of(const File& file, const AtWork& at_work);

}  // namespace megalith::data

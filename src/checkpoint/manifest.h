// SPDX-License-Identifier: Apache-2.0
// manifest.json: what a checkpoint consists of. A reader takes every version up to its own and
// refuses newer ones by number (in every version, COMMIT holds the manifest's SHA-256 and the
// manifest its version). A change that older readers would misread raises the version. Version 2
// hashes files and pieces with XXH3-128, version 1 with SHA-256. Version 3 has pieces of two ranges
// and is written only where there are some.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/shard.h"

namespace megalith::checkpoint {

inline constexpr int kFormatVersion = 3;

/// Where a part of a tensor is: indices [begin, begin + count) of `dim`, then those of a second
/// range where there is one (tensor/shard.h), under the tensor's name in `file`.
struct PieceRecord {
  std::string file;
  int dim = 0;
  int64_t begin = 0;
  int64_t count = 0;
  std::string hash = {};  // of its bytes; version 1 has none where it is the whole tensor
  int64_t second_begin = 0;
  int64_t second_count = 0;
  Shard shard() const { return {dim, begin, count, second_begin, second_count}; }
};

struct TensorRecord {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::string sha256;  // of the whole tensor's bytes
  std::vector<PieceRecord> pieces;
  /// Where along their dimension the pieces overlap or leave a gap; nothing: they cover it once.
  std::optional<int64_t> uncovered_at() const;
};

struct FileRecord {
  std::string name;
  int64_t bytes = 0;
  std::string hash;
};

/// A whole checkpoint that a newer program wrote. It is not damaged: it is refused, and never
/// passed over, removed or replaced.
class NewerFormatError : public UserError {
 public:
  NewerFormatError(const std::filesystem::path& manifest, int64_t version)
      : UserError(
            "{}: is of format version {}, and this program reads 1 to {}; use the newer "
            "megalith that wrote it, or set another run.out",
            manifest.string(), version, kFormatVersion) {}
};

struct Manifest {
  int64_t version = kFormatVersion;  // to be written: that of needed_version()
  int64_t step = 0;
  std::string state_sha256;
  std::vector<TensorRecord> tensors;
  std::vector<FileRecord> files;
  nlohmann::json state;

  /// The oldest version that can say this: 2, or 3 with pieces of two ranges.
  int64_t needed_version() const;
  /// The text of manifest.json, in the format of `version`.
  std::string to_text() const;
  /// IntegrityError naming `path` and the fault unless every field is present, file names are
  /// plain, and the pieces cover each tensor exactly and lie in listed files. NewerFormatError,
  /// whatever else it holds, if its version is above this program's.
  static Manifest parse(const std::string& text, const std::filesystem::path& path);
};

inline constexpr char kManifestName[] = "manifest.json";
inline constexpr char kCommitName[] = "COMMIT";
/// "step-00001000" and back (-1 for another name).
std::string step_folder_name(int64_t step);
int64_t step_of_folder(const std::string& name);

}  // namespace megalith::checkpoint

// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints, and only whole ones: a checkpoint exists if and only if COMMIT holds the hash
// of its manifest, which holds the hash of every file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/at_work.h"
#include "tensor/dtype.h"
#include "tensor/shard.h"

namespace megalith::checkpoint {

struct TensorInfo {
  std::string name;
  DType dtype;
  Shape shape;
};

/// Const functions may be called from several threads at once.
class Reader {
 public:
  /// Opens a step folder and checks COMMIT, manifest and the sizes of all files. IntegrityError
  /// naming the file and the fault; NewerFormatError (manifest.h) naming both versions. `at_work`
  /// is for all hashing and reading later on.
  explicit Reader(const std::filesystem::path& step_folder, AtWork at_work = {});
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  const std::filesystem::path& folder() const;
  int64_t step() const;
  const std::vector<TensorInfo>& tensors() const;
  /// Null when absent.
  const TensorInfo* find(const std::string& name) const;
  /// What the caller of save() passed.
  const nlohmann::json& state() const;
  const std::string& state_sha256() const;
  /// A text file that was saved along, verified; nothing if there is none.
  std::optional<std::string> text(const std::string& name) const;
  /// Names of all files saved along.
  std::vector<std::string> text_names() const;

  /// Checks the hash of every file, on all cores.
  void verify_all() const;
  /// Reads part of a tensor to `host` (row major, in the stored type). At the first use of a file
  /// its whole hash is verified. IntegrityError naming file and tensor.
  void read(const std::string& name, const Shard& shard, void* host) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

using StepFolders = std::map<int64_t, std::filesystem::path, std::greater<>>;
/// The step folders in a run's folder of checkpoints, newest first, whole or not; none if it is
/// absent. UserError if that folder is a link, since what it leads to is somebody else's.
StepFolders step_folders(const std::filesystem::path& checkpoints);
/// Opens one of them. IntegrityError also if it is a link.
Reader open_own_step(const std::filesystem::path& folder, AtWork at_work = {});

/// The newest complete checkpoint in a folder of step folders: COMMIT and manifest hold and all
/// files have their size (with `verify`: all hashes hold too, and are not computed again).
///   - Newer ones that are damaged (IntegrityError) are passed over with a warning that names them.
///   - One that cannot be read now is a SystemError, because it may well be whole.
///   - One of a newer format is a NewerFormatError, because it is whole.
///   - Nothing is returned if no folder has such a name; IntegrityError if some do and none is
///     whole. (A save gives the name last, so the folder was a checkpoint, whatever it lacks now.)
std::optional<Reader> find_newest(const std::filesystem::path& checkpoints, bool verify,
                                  const AtWork& at_work = {});

}  // namespace megalith::checkpoint

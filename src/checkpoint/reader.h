// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints, and nothing that is not whole: a checkpoint exists only if COMMIT holds the
// hash of its manifest, which holds the hash of every file.
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

/// Constant calls may come from several threads at once.
class Reader {
 public:
  /// Opens a step folder: COMMIT, manifest and the sizes of all files are checked. IntegrityError
  /// names the file and what is wrong; NewerFormatError (manifest.h) both versions. `at_work`: of
  /// all hashing and reading later.
  explicit Reader(const std::filesystem::path& step_folder, AtWork at_work = {});
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  const std::filesystem::path& folder() const;
  int64_t step() const;
  const std::vector<TensorInfo>& tensors() const;
  /// Null when absent.
  const TensorInfo* find(const std::string& name) const;
  /// What the caller of save() gave.
  const nlohmann::json& state() const;
  const std::string& state_sha256() const;
  /// A text file saved along; nothing when there was none. Verified.
  std::optional<std::string> text(const std::string& name) const;
  /// Names of all files saved along.
  std::vector<std::string> text_names() const;

  /// Checks the hash of every file, on all cores.
  void verify_all() const;
  /// Reads part of a tensor to `host` (row major, in the stored type). The hash of the whole
  /// tensor's file is verified at its first use. IntegrityError naming file and tensor.
  void read(const std::string& name, const Shard& shard, void* host) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

using StepFolders = std::map<int64_t, std::filesystem::path, std::greater<>>;
/// The step folders in a run's folder of checkpoints, newest first, whole or not; none when it is
/// absent. UserError when that folder is a link: what lies there is another's.
StepFolders step_folders(const std::filesystem::path& checkpoints);
/// One of them, opened. IntegrityError also when it is a link.
Reader open_own_step(const std::filesystem::path& folder, AtWork at_work = {});

/// The newest complete checkpoint in a folder of step folders (COMMIT and manifest hold and all
/// files have their size; with `verify`, all hashes too). Damaged newer ones (IntegrityError) are
/// passed over with a warning that names them; one that cannot be read now is a SystemError: it may
/// well be whole; one of a newer format is a NewerFormatError: it is. Nothing if there is no folder
/// of such a name (a save gives it last, so it was a checkpoint whatever it lacks now);
/// IntegrityError if there are and none is whole. What it has verified is not hashed again.
std::optional<Reader> find_newest(const std::filesystem::path& checkpoints, bool verify,
                                  const AtWork& at_work = {});

}  // namespace megalith::checkpoint

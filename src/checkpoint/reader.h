// SPDX-License-Identifier: Apache-2.0
// Reads checkpoints, and only whole ones: a checkpoint exists if and only if COMMIT holds the hash
// of its manifest, which holds the hash of every file.
#pragma once

#include <filesystem>
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
  /// its whole hash is verified. IntegrityError naming file and tensor. `at_work`: in place of the
  /// reader's own.
  void read(const std::string& name, const Shard& shard, void* host,
            const AtWork& at_work = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace megalith::checkpoint

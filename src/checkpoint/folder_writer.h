// SPDX-License-Identifier: Apache-2.0
// Writes one checkpoint folder: tensor files of bounded size, texts, manifest, COMMIT. The folder
// appears under its name only when all of it is durable. Many ranks write one folder together: each
// writes the files of its own pieces and rank 0 the rest; no rank ever holds or sends a whole
// tensor.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "comm/communicator.h"

namespace megalith::checkpoint {

struct FolderContent {
  int64_t step = 0;
  std::vector<TensorContent> tensors;        // that this rank writes: each piece is of one rank
  nlohmann::json state;                      // the caller's; rank 0's counts
  std::map<std::string, std::string> texts;  // further files by name; rank 0's count
  int64_t needed = 0;                        // bytes of the whole on the disk, for messages
};

struct FolderSummary {
  std::string state_sha256;
  int64_t bytes = 0;  // of all files but manifest and COMMIT
};

/// The error for a save that failed, whatever the cause: a failed run (exit 1). `needed`: bytes of
/// a checkpoint.
SystemError save_failure(const std::filesystem::path& target, int64_t step, int64_t needed,
                         const char* reason);

/// The size at which tensor files are cut: it bounds what one damaged file costs, and lets several
/// threads hash and write at once. A larger tensor has a file of its own.
inline constexpr int64_t kTensorFileBytes = int64_t{256} << 20;

/// The name of tensor file `number` (from 1) of `of`: the longest name in the folder.
std::string tensor_file_name(int64_t number, int64_t of);

/// What tensor files need of a disk, rounded up rather than down.
struct FolderNeeds {
  int64_t bytes = 0;
  int64_t files = 0;
  int64_t largest = 0;  // bytes of one file
};
/// The needs of a rank that writes tensors of these bytes in this order. The folder's other files,
/// few and small, come on top.
FolderNeeds needs_of(std::span<const int64_t> tensor_bytes, int64_t file_bytes = kTensorFileBytes);

/// Writes `threads` files at a time, each through kUncachedBufferBytes; with more than one, the
/// `write` functions of tensors run concurrently.
///
/// With `ranks` (null: this rank alone) collective over them. All see one file system, `target` is
/// rank 0's, and the pieces of all ranks cover each tensor. The summary is of the whole folder. A
/// failure on one rank ends all of them, by the save_failure that it throws.
///
/// Replaces whatever is at `target`, except a checkpoint of a newer format (NewerFormatError). The
/// folder is durable on return.
FolderSummary write_checkpoint_folder(const std::filesystem::path& target,
                                      const FolderContent& content, int threads,
                                      int64_t file_bytes = kTensorFileBytes,
                                      comm::ControlMessages* ranks = nullptr);

}  // namespace megalith::checkpoint

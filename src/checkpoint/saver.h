// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints that survive anything: every file is complete, durable and hashed before
// COMMIT names them, and nothing old is removed before something newer is whole. Protocol and
// format: docs/design/0003-checkpoint-format.md.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "checkpoint/snapshot.h"
#include "comm/communicator.h"
#include "device/device.h"

namespace megalith::checkpoint {

struct SaverOptions {
  int64_t keep = 2;          // complete checkpoints that remain
  bool asynchronous = true;  // write in the background, from a snapshot
  /// Above 0: the newest checkpoint of a step that this divides is always among the kept (if keep
  /// is at least 2), whatever a signal saved since.
  int64_t regular = 0;
};

/// What a finished save left.
struct Saved {
  int64_t step = 0;
  std::filesystem::path folder;
  std::string state_sha256;
  int64_t bytes = 0;
  double write_seconds = 0;
};

class Saver {
 public:
  /// `folder` ("<run>/checkpoints") is created; temporary files and folders in it are removed,
  /// checkpoints never, whole or damaged. UserError when it cannot be written. With `world` (null:
  /// this rank alone), which must outlive the saver, construction and saves are collective over it:
  /// each rank gives the pieces that it writes, all see one folder; rank 0 makes and cleans it. A
  /// failure in the background ends all ranks.
  Saver(std::filesystem::path folder, const SaverOptions& options,
        comm::Communicator* world = nullptr);
  /// Waits for a write in progress; its failure is then lost (call wait()).
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Takes the memory for snapshots of `bytes` of state (class snapshot, kept for all saves), so
  /// that it is known before the first step; its pages are asked for in the background. Nothing
  /// when saves are not asynchronous: those stream from the device through small buffers. The
  /// device must outlive the saver.
  void reserve(device::Device& device, int64_t bytes);

  /// Before the first step: is there room for a save of tensors of these bytes (those that this
  /// rank writes, in order) and of `text_bytes` of texts (rank 0's)? SystemError naming the bytes
  /// needed when the disk has too few bytes or files left, or a limit of the process is below the
  /// largest file; a warning when there is room for one, but not for as many as are to be kept.
  /// Collective.
  void require_room(std::span<const int64_t> tensor_bytes, int64_t text_bytes);

  /// Writes step folder `step`: asynchronous, the values are copied to the snapshot when it
  /// returns; otherwise all is durable. Waits for the save before, if it still runs, and throws
  /// its failure. `state` is the caller's; `texts` are files to put beside ("recipe.yaml",
  /// "tokenizer.json"). A checkpoint of this step that is there already is replaced in one move.
  /// Throws what require_room would throw. A checkpoint of a newer format is not replaced: the save
  /// fails.
  void save(device::Device& device, int64_t step, std::span<const TensorSource> tensors,
            nlohmann::json state, std::map<std::string, std::string> texts);
  /// Returns when nothing is being written; throws the failure of the last save. Local. Null before
  /// the first.
  const Saved* wait();
  /// Removes what a save of `step` removes when it is done, for a start that finds it there, whole,
  /// and has nothing to save; a failure is a warning. Waits for a save in progress.
  void tidy(int64_t step);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace megalith::checkpoint

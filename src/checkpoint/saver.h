// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints that survive a crash at any moment: every file is complete, durable and hashed
// before COMMIT names it, and nothing old is removed before something newer is whole. Protocol and
// format: docs/design/0003-checkpoint-format.md.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "checkpoint/kept_checkpoints.h"
#include "checkpoint/snapshot.h"
#include "comm/communicator.h"
#include "device/device.h"

namespace megalith::checkpoint {

struct SaverOptions {
  KeptCheckpoints kept = {};  // which remain
  bool asynchronous = true;   // write in the background, from a snapshot
};

/// The result of a finished save.
struct Saved {
  int64_t step = 0;
  std::filesystem::path folder;
  std::string state_sha256;
  int64_t bytes = 0;
  double write_seconds = 0;
};

class Saver {
 public:
  /// Creates `folder` ("<run>/checkpoints") and removes temporary files and folders in it;
  /// checkpoints stay, whole or damaged. UserError if it cannot be written.
  ///
  /// With `world` (null: this rank alone), which must outlive the saver, construction and saves are
  /// collective over it. Each rank passes the pieces that it writes, all ranks see one folder, and
  /// rank 0 makes and cleans it. A failure in the background ends all ranks.
  Saver(std::filesystem::path folder, const SaverOptions& options,
        comm::Communicator* world = nullptr);
  /// Waits for a write in progress. Its failure is lost then, so call wait() first.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Takes memory (class snapshot, kept for all saves) for snapshots of `bytes` of state, so that
  /// it is known before the first step; its pages are requested in the background. Does nothing if
  /// saves are not asynchronous: those stream from the device through small buffers. The device
  /// must outlive the saver.
  void reserve(device::Device& device, int64_t bytes);

  /// Call before the first step: is there room for a save? `tensor_bytes` are the tensors that this
  /// rank writes, in order, `text_bytes` all texts (rank 0's). SystemError naming the bytes needed
  /// if the disk lacks bytes or files, or if a limit of the process is below the largest file.
  /// Warns if there is room for one checkpoint but not for as many as are to be kept. Collective.
  void require_room(std::span<const int64_t> tensor_bytes, int64_t text_bytes);

  /// Writes step folder `step`. An asynchronous save returns once the values are in the snapshot;
  /// any other returns when all is durable. Waits for the previous save if it still runs, and
  /// throws its failure. `state` is the caller's; `texts` are files to save along ("recipe.yaml",
  /// "tokenizer.json"). An existing checkpoint of this step is replaced in one move, unless it is
  /// of a newer format: then the save fails. Throws what require_room throws. Collective.
  void save(device::Device& device, int64_t step, std::span<const TensorSource> tensors,
            nlohmann::json state, std::map<std::string, std::string> texts);
  /// Returns when nothing is being written; throws the failure of the last save. Null before the
  /// first save. Local.
  const Saved* wait();
  /// Removes what a save of `step` would remove at its end, for a start that finds that checkpoint
  /// whole and has nothing to save. A failure is a warning. Waits for a save in progress.
  void tidy(int64_t step);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace megalith::checkpoint

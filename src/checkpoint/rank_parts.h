// SPDX-License-Identifier: Apache-2.0
// What each rank has written of a checkpoint, made known to all: every rank learns every tensor's
// pieces and who holds them, and rank 0 gets the records of the manifest.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/communicator.h"

namespace megalith::checkpoint {

/// A logical tensor and the ranks that hold its pieces, in the order of the pieces. With several
/// pieces its `sha256` is still empty.
struct PlacedTensor {
  TensorRecord record;
  std::vector<int> ranks;
};

struct Parts {
  std::vector<FileRecord> files;
  std::vector<PlacedTensor> tensors;
};

/// One rank's part: every tensor as a single piece, with its sha256. With `ranks` (null: this rank
/// alone) collective. MEGA_CHECK that the pieces cover each tensor once and agree on type and
/// shape.
Parts join_parts(std::vector<FileRecord> files, std::vector<TensorRecord> tensors,
                 comm::ControlMessages* ranks);

}  // namespace megalith::checkpoint

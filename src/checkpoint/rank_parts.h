// SPDX-License-Identifier: Apache-2.0
// What each rank has written of a checkpoint, told to all: from it every rank knows every tensor's
// pieces and who holds them, and rank 0 has the manifest's records.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/communicator.h"

namespace megalith::checkpoint {

/// A logical tensor and the ranks that hold its pieces, in the order of the pieces. Its `sha256` is
/// still empty when there are several.
struct PlacedTensor {
  TensorRecord record;
  std::vector<int> ranks;
};

struct Parts {
  std::vector<FileRecord> files;
  std::vector<PlacedTensor> tensors;
};

/// One rank's part: every tensor with one piece, whose sha256 is set. With `ranks` (null: alone)
/// collective. MEGA_CHECK that pieces cover each tensor once and agree on type and shape.
Parts join_parts(std::vector<FileRecord> files, std::vector<TensorRecord> tensors,
                 comm::Communicator* ranks);

}  // namespace megalith::checkpoint

// SPDX-License-Identifier: Apache-2.0
// What an operation costs at least: the unit of plans, profiles and percentages.
#pragma once

#include <cstdint>

namespace megalith::device {

/// The work an operation cannot avoid. Masked blocks are not counted as FLOPs. A fused multiply-add
/// is two.
struct Work {
  double flops = 0;
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t bytes_wire = 0;  // sent by this rank
};

}  // namespace megalith::device

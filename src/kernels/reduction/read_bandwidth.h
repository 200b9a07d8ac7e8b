// SPDX-License-Identifier: Apache-2.0
// The machine's other ceiling: how fast all threads together stream a buffer from memory. Decoding
// one sequence reads every weight once per token and can be no faster.
#pragma once

#include "kernels/exec.h"

namespace megalith::kernels {

/// Bytes per second of the fastest of the passes over a buffer of `bytes` bytes that fit into about
/// `seconds` (two at least). Takes the buffer from exec.workspace; it should be several times the
/// last-level cache. Not for the trace kind.
double read_bandwidth(Exec& exec, int64_t bytes, double seconds);

}  // namespace megalith::kernels

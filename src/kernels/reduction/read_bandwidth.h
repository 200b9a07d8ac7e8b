// SPDX-License-Identifier: Apache-2.0
// The machine's other ceiling: how fast all threads together stream a buffer from memory. Decoding
// one sequence reads every weight once per token and can be no faster.
#pragma once

#include <vector>

#include "kernels/exec.h"

namespace megalith::kernels {

/// Reads a buffer with all threads of exec's device, which must outlive this.
class StreamingReads {
 public:
  /// Takes `bytes` from exec.workspace; they should be several times the last-level cache. Not for
  /// the trace kind.
  StreamingReads(Exec& exec, int64_t bytes);
  double seconds_of_a_pass();

 private:
  Exec* exec_;
  device::Tensor buffer_;
  std::vector<float> sums_;
};

/// Bytes per second of the fastest pass over a buffer of `bytes` bytes, among those that fit into
/// about `seconds` (at least two).
double read_bandwidth(Exec& exec, int64_t bytes, double seconds);

}  // namespace megalith::kernels

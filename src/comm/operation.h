// SPDX-License-Identifier: Apache-2.0
// What one communication call is: the identity that is compared across ranks, and its buffers.
// Views are cut into one part per rank along dimension 0 by `part_of`: parts of ceil(rows / size)
// rows, the last ones shorter or empty. With rows divisible by size all parts are equal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/integer.h"
#include "device/device.h"
#include "tensor/view.h"

namespace megalith::comm {

enum class OperationKind : uint8_t {
  transfer,  // one send and its receive
  barrier,
  all_gather,
  all_to_all,
  broadcast,
  all_reduce_max,
  all_reduce_min,
  all_reduce_sum,
  split,
};
std::string_view name_of(OperationKind kind);
inline std::string_view format_as(OperationKind kind) { return name_of(kind); }

/// Rows [begin, begin + count) of `rows` that belong to `rank` of `size`.
struct Part {
  int64_t begin = 0;
  int64_t count = 0;
};
constexpr Part part_of(int64_t rows, int rank, int size) {
  const int64_t each = ceil_div(rows, static_cast<int64_t>(size));
  const int64_t begin = std::min(rows, each * rank);
  return {begin, std::min(rows - begin, each)};
}

/// One rank's call. `count` is the number of elements of the whole (equal on all ranks).
struct Operation {
  OperationKind kind = OperationKind::barrier;
  DType dtype = DType::u8;
  int64_t count = 0;
  int64_t rows = 0;        // of the whole, along which it is cut into parts
  int root = 0;            // broadcast
  int peer = -1;           // transfer: the other rank
  bool is_sender = false;  // transfer
  int channel = 0;         // transfer
  std::string_view label;
  ConstView source;                  // read by the call (absent for a receiver)
  View target;                       // written by the call (absent for a sender)
  device::Device* device = nullptr;  // whose memory they are; null: the host's
};

// Operations from views, checked.
/// `whole`, cut along its rows. InternalError when it has gaps.
Operation whole_of(OperationKind kind, ConstView whole, std::string_view label);
/// An all_gather on `rank` of `size`.
Operation gather_of(ConstView local, View all, int rank, int size, std::string_view label);
/// An all_reduce in place.
Operation reduce_of(OperationKind kind, View x, std::string_view label);
/// A message from this rank to `peer`, and its other end.
Operation send_of(int peer, ConstView x, std::string_view label, int channel);
Operation receive_of(int peer, View x, std::string_view label, int channel);
/// Elements in `rows` rows of the whole.
int64_t elements_of(const Operation& operation, int64_t rows);

/// Bytes that `rank` of `size` sends, beside the call's identity to each rank concerned. Direct
/// algorithms, with s = size and N the bytes of the whole:
///   transfer: N by the sender; all_gather: (s-1) own part; all_to_all: N minus own part;
///   broadcast: (s-1) N by the root; all_reduce (small vectors, in one step): (s-1) N.
int64_t wire_bytes(const Operation& operation, int rank, int size);

/// "all_gather 'layers.3.mlp.output' of 12 f32": one line for messages.
std::string describe(const Operation& operation);

}  // namespace megalith::comm

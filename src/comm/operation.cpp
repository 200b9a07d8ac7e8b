// SPDX-License-Identifier: Apache-2.0
#include "comm/operation.h"

#include <fmt/format.h>

namespace megalith::comm {

std::string_view name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::transfer:
      return "send";
    case OperationKind::barrier:
      return "barrier";
    case OperationKind::all_gather:
      return "all_gather";
    case OperationKind::all_to_all:
      return "all_to_all";
    case OperationKind::broadcast:
      return "broadcast";
    case OperationKind::all_reduce_max:
      return "all_reduce_max";
    case OperationKind::all_reduce_sum:
      return "all_reduce_sum";
    case OperationKind::split:
      return "split";
  }
  return "unknown";
}

int64_t wire_bytes(const Operation& operation, int rank, int size) {
  if (operation.rows == 0) return 0;
  const int64_t whole = operation.count * bytes_of(operation.dtype);
  const int64_t own = whole / operation.rows * part_of(operation.rows, rank, size).count;
  const int64_t others = size - 1;
  switch (operation.kind) {
    case OperationKind::transfer:
      return operation.is_sender ? whole : 0;
    case OperationKind::all_gather:
      return others * own;
    case OperationKind::all_to_all:
      return whole - own;
    case OperationKind::broadcast:
      return rank == operation.root ? others * whole : 0;
    case OperationKind::all_reduce_max:
    case OperationKind::all_reduce_sum:
      return others * whole;
    case OperationKind::barrier:
    case OperationKind::split:
      return 0;
  }
  return 0;
}

std::string describe(const Operation& operation) {
  std::string text = fmt::format("{} '{}'", operation.kind, operation.label);
  if (operation.kind == OperationKind::barrier || operation.kind == OperationKind::split)
    return text;
  text += fmt::format(" of {} {}", operation.count, operation.dtype);
  if (operation.kind == OperationKind::broadcast) text += fmt::format(" from {}", operation.root);
  return text;
}

}  // namespace megalith::comm

// SPDX-License-Identifier: Apache-2.0
#include "comm/operation.h"

#include <fmt/format.h>

#include "base/check.h"

namespace megalith::comm {
namespace {

int64_t rows_of(ConstView view) { return view.shape().num_dims() == 0 ? 1 : view.size(0); }

}  // namespace

Operation whole_of(OperationKind kind, ConstView whole, std::string_view label) {
  MEGA_CHECK(whole.is_contiguous(), "{} '{}' of a view with gaps", kind, label);
  Operation operation;
  operation.kind = kind;
  operation.dtype = whole.dtype();
  operation.count = whole.num_elements();
  operation.rows = rows_of(whole);
  operation.label = label;
  return operation;
}

int64_t elements_of(const Operation& operation, int64_t rows) {
  return operation.rows == 0 ? 0 : operation.count / operation.rows * rows;
}

Operation gather_of(ConstView local, View all, int rank, int size, std::string_view label) {
  Operation operation = whole_of(OperationKind::all_gather, all, label);
  const Part part = part_of(operation.rows, rank, size);
  MEGA_CHECK(local.is_contiguous() && local.dtype() == all.dtype() &&
                 local.num_elements() == elements_of(operation, part.count),
             "all_gather '{}': local {} {} is not part {} of {} of {} {}", label, local.shape(),
             local.dtype(), rank, size, all.shape(), all.dtype());
  operation.source = local;
  operation.target = all;
  return operation;
}

Operation reduce_of(OperationKind kind, View x, std::string_view label) {
  Operation operation = whole_of(kind, x.reshape({x.num_elements()}), label);
  operation.source = x;
  operation.target = x;
  return operation;
}

namespace {

Operation transfer_of(int peer, ConstView x, std::string_view label, int channel) {
  Operation operation = whole_of(OperationKind::transfer, x, label);
  operation.peer = peer;
  operation.channel = channel;
  return operation;
}

}  // namespace

Operation send_of(int peer, ConstView x, std::string_view label, int channel) {
  Operation operation = transfer_of(peer, x, label, channel);
  operation.is_sender = true;
  operation.source = x;
  return operation;
}

Operation receive_of(int peer, View x, std::string_view label, int channel) {
  Operation operation = transfer_of(peer, x, label, channel);
  operation.target = x;
  return operation;
}

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
    case OperationKind::all_reduce_min:
      return "all_reduce_min";
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
    case OperationKind::all_reduce_min:
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

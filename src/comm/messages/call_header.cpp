// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/call_header.h"

#include <algorithm>

namespace megalith::comm {

CallHeader CallHeader::of(const Operation& operation, uint64_t number) {
  CallHeader header;
  header.number = number;
  header.kind = static_cast<int32_t>(operation.kind);
  header.dtype = static_cast<int32_t>(operation.dtype);
  header.count = operation.count;
  header.rows = operation.rows;
  header.root = operation.root;
  const size_t length = std::min(operation.label.size(), header.label.size() - 1);
  std::copy_n(operation.label.begin(), length, header.label.begin());
  return header;
}

std::string CallHeader::text() const {
  Operation operation;
  operation.kind = static_cast<OperationKind>(kind);
  operation.dtype = static_cast<DType>(dtype);
  operation.count = count;
  operation.root = root;
  operation.label = label.data();
  return describe(operation);
}

}  // namespace megalith::comm

// SPDX-License-Identifier: Apache-2.0
// What a message from a client may cost is bounded before it is made.
#pragma once

#include <string_view>

namespace megalith::grpc_protocol {

/// Fields and values of a ModelInferRequest: each may become dozens of bytes, of one or two.
inline constexpr size_t kMostValues = 2'000'000;

/// ApiError when there are more, or the bytes are no message.
void require_few_values(std::string_view infer_request);

}  // namespace megalith::grpc_protocol

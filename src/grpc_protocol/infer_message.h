// SPDX-License-Identifier: Apache-2.0
// Messages of infer requests to the structs that HTTP's bodies become too, and answers back.
#pragma once

#include "protocols/kserve.h"

namespace inference {
class ModelInferRequest;
}

namespace megalith::grpc_protocol {

inline constexpr size_t kMostIdBytes = 256;

/// ApiError in words of the tensor that is wrong. Answers are to have raw contents where the
/// request's are raw.
protocols::KserveRequest request_of(const ::inference::ModelInferRequest& message);

/// A ModelInferResponse; the same in a ModelStreamInferResponse.
protocols::Body infer_response(const protocols::KserveAnswer& answer);
protocols::Body stream_response(const protocols::KserveAnswer& answer);
/// A ModelStreamInferResponse that tells of an error of the request with this id.
std::string stream_error(const protocols::ApiError& error, const std::string& id);

}  // namespace megalith::grpc_protocol

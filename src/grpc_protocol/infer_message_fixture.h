// SPDX-License-Identifier: Apache-2.0
// Tests only: infer requests as messages.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "grpc_protocol/inference.pb.h"

namespace megalith::grpc_protocol {

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline ::inference::ModelInferRequest::InferInputTensor& add_input(
    ::inference::ModelInferRequest& request, const char* name, const char* datatype,
    const std::vector<int64_t>& shape) {
  auto& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  input.mutable_shape()->Add(shape.begin(), shape.end());
  return input;
}

/// Typed contents of UINT32.
inline void add_whole(::inference::ModelInferRequest& request, const char* name,
                      const std::vector<int64_t>& shape, const std::vector<uint32_t>& values) {
  auto& contents = *add_input(request, name, "UINT32", shape).mutable_contents();
  contents.mutable_uint_contents()->Add(values.begin(), values.end());
}

/// A prompt of the small model: "ab c", as typed or raw contents.
inline ::inference::ModelInferRequest small_request(bool raw = false, uint32_t new_tokens = 2) {
  ::inference::ModelInferRequest request;
  request.set_model_name("small");
  request.set_id("7");
  if (raw) {
    add_input(request, "input_ids", "UINT32", {1, 3});
    add_input(request, "request_output_len", "UINT32", {1, 1});
    request.add_raw_input_contents(raw_bytes<uint32_t>({2, 4, 3}));
    request.add_raw_input_contents(raw_bytes<uint32_t>({new_tokens}));
  } else {
    add_whole(request, "input_ids", {1, 3}, {2, 4, 3});
    add_whole(request, "request_output_len", {1, 1}, {new_tokens});
  }
  return request;
}

}  // namespace megalith::grpc_protocol

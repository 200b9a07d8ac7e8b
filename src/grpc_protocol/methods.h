// SPDX-License-Identifier: Apache-2.0
// The methods that are answered over gRPC: what a message to each asks, and answers as messages.
// Knows neither sockets nor gRPC's library.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/reply.h"
#include "protocols/served_model.h"

namespace megalith::grpc_protocol {

enum class MethodKind : uint8_t {
  question,  // of server or model: answered at once
  infer,     // one request, one answer
  stream     // requests, and several answers to each
};

struct Method {
  std::string_view path;  // "/inference.GRPCInferenceService/ModelInfer"
  MethodKind kind;
  bool is_public = false;  // whether it lives: no key is needed
};
/// Null if there is none at the path.
const Method* method_at(std::string_view path);

/// Of messages to questions; those of infer requests are as long as bodies over HTTP.
inline constexpr size_t kMostQuestionBytes = 64 << 10;

struct ServerState {
  std::string version;
  bool is_ready = false;
  std::vector<std::string> ready_adapters = {};
};
/// The answer to a question. ApiError when the message is wrong.
std::string answer_question(const Method& method, std::string_view message,
                            const protocols::ServedModel& model, const ServerState& state);

/// How an infer request names itself and what it asks.
struct InferNames {
  std::string id;       // the client's; set as soon as it is known
  std::string adapter;  // empty: the model alone
};
/// An infer request. ApiError when the message is wrong.
protocols::Prepared prepare_infer_message(std::string_view message,
                                          const protocols::ServedModel& model, bool streams,
                                          InferNames& names);

/// gRPC's number for a status of HTTP's.
int grpc_code(int http_status);

}  // namespace megalith::grpc_protocol

// SPDX-License-Identifier: Apache-2.0
// The methods that are answered over gRPC: what a message to each asks, and answers as messages.
// Knows neither sockets nor gRPC's library.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/kserve.h"

namespace megalith::grpc_protocol {

enum class MethodKind : uint8_t {
  question,    // of server or model: answered at once
  repository,  // to load or unload a model: answered, emptily, when that is done
  infer,       // one request, one answer
  stream       // requests, and several answers to each
};

struct Method {
  std::string_view path;  // "/inference.GRPCInferenceService/ModelInfer"
  MethodKind kind;
  bool is_public = false;  // whether it lives: no key is needed
};
/// Null if there is none at the path.
const Method* method_at(std::string_view path);

/// Of all messages but those of infer requests, which are as long as bodies over HTTP.
inline constexpr size_t kMostQuestionBytes = 64 << 10;

struct ServerState {
  std::string version;
  bool is_ready = false;
  std::vector<protocols::RepositoryEntry> models = {};  // the served one and its adapters
};
/// The answer to a question. ApiError when the message is wrong.
std::string answer_question(const Method& method, std::string_view message,
                            const protocols::ServedModel& model, const ServerState& state);

/// What is to be loaded or unloaded.
struct RepositoryChange {
  std::string name;
  bool loads = false;
};
/// Of a method of the repository. ApiError when the message is wrong.
RepositoryChange repository_change(const Method& method, std::string_view message);

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
